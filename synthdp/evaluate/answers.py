"""Findings in words: the page's first screen, `answers` of evaluation.json, and what a terminal shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from synthdp.errors import closed, listed
from synthdp.evaluate import findings
from synthdp.evaluate.figures import percent, said, small
from synthdp.evaluate.findings import FAR, GIVEN_AWAY, NOT_COMPUTED, UNTOLD, Attacks, Entry, Finding, Loss, Verdict
from synthdp.evaluate.scores import METRIC_LABELS

MOST_TARGETS = 2  # more cards than this are folded into one that speaks of the worst target
BRIEFLY = 3  # associations for a terminal, of those that are lost and of those that are invented
FEW = 2  # times as many training rows as synthetic ones
NOT_ASKED, ONLY_GUARANTEE = Verdict("Not asked"), Verdict("Only the guarantee can tell")
NO_REASON = Verdict("The attacks found no reason not to", good=True)
NOTHING = "See the list of what was not computed, below."
PAGE = "This page must not be shared: it contains exact statistics of real records."
REMARKS = {
    "column lost": "The synthetic rows hold too few values of this column to train a model on: the fit lost it.",
    "not computed": NOTHING,
    "mean": "The figures are the mean {name}, on real held-out rows, of models trained on synthetic rows, on real rows (the ceiling) "
    "and on rows whose columns are unrelated (the floor).",
    "past": "The figures are the AUROC, on real held-out rows, of a model that sees a row and what came before it: trained on synthetic "
    "rows, on real rows (the ceiling) and on real rows without what came before them.",
    "no signal": "Models trained on real rows hardly predict this column either, so it does not test the synthetic rows.",
    "few rows": "On these held-out rows, models trained on real rows are not clearly better than {guessing} either, so the figures cannot "
    "tell what the synthetic rows are worth: hold out more rows, or judge by another column.",
    "kept": "Synthetic rows keep {share} of what real rows offer above {guessing}.",
    "given away": "Models trained on real rows are always right, because {by} this column away: the figures say how well synthetic rows "
    "keep that one association, and nothing of the rest. Leave {it} out to learn more.",
    "always right": "Models trained on real rows are always right: another column may give this one away, and then the figures say nothing "
    "of the rest. Leave such a column out to learn more; synthdp check names those that it finds.",
}
ASSOCIATION, INVENTED = "loses a strong association", "invents a strong association"
FAULTS = {  # with which a verdict ends, and the kinds of findings that are one
    ASSOCIATION: ("association", "together"),
    INVENTED: ("invented",),
    "distorts the histories": ("histories",),
    "gets the number of events wrong": ("event",),
    "has visits after values that end real histories": ("return",),
    "misplaces weekdays or hours": ("calendar",),
    "gives codes to people of the wrong age": ("ages",),
    "breaks a declared rule": ("rule",),
    "misplaces numbers below visits": ("numbers",),
}
OF_PEOPLE = ("together", "ages", "event", "return", "calendar")  # findings that are shares of visits or people
SHARE = "{made} of synthetic {what}; {held} of real ones do{more}"
LOST = "{real:.2f} among real rows, {synthetic:.2f} among synthetic ones"
NUMBERS = "{what} is farthest off: 10 %, 50 % and 90 % of synthetic ones lie below {synthetic}, of real ones below {real}{more}"
OUTSIDE = "{made} of synthetic {what} lie outside the range of the real training ones; {held} of held-out ones do{more}"
SHIFT = "{what} is farthest off beyond chance: {synthetic} among synthetic rows, {real} among real ones{more}"
SHOWN = {"single columns": "tvd_1way", "pairs": "tvd_2way", "detection": "detection_auc"}
DISTANCES = {"single columns": "single columns differ from the real training rows", "pairs": "pairs of columns"}
SENTENCES = {
    "association": f"The association of {{what}} loses most: {LOST}.",
    "gone": f"Of the associations of {findings.STRONG} or more, that of {{what}} loses half or more: {LOST}{{more}}.",
    "invented": f"Of the associations that are too strong, that of {{what}} is farthest off: {LOST}.",
    "histories": "Among the histories, the largest difference is in {what}: {synthetic:.3f} ({real:.3f} in held-out ones).",
    "below": "Below the visits, the largest difference is in {what}: {synthetic:.3f} ({real:.3f} in held-out ones).",
    **dict.fromkeys(OF_PEOPLE, f"{SHARE}."),
    "numbers": f"Among the numbers below the visits, {NUMBERS}.",
    "outside": f"{OUTSIDE}.",
    "beyond": f"{OUTSIDE}.",
    "shift": f"Of the means and tails of numbers, {SHIFT}.",
    "rule": "{made} of synthetic rows break the rule {what} ({held} of real ones do).",
}
LINES = {
    "rule": "{made} of synthetic rows and {held} of real rows break {what}",
    "below": "{what} total variation distance {synthetic:.3f}; of held-out people {real:.3f}",
    **dict.fromkeys(OF_PEOPLE, SHARE),
    "numbers": NUMBERS,
    "outside": OUTSIDE,
    "beyond": OUTSIDE,
    "shift": SHIFT,
}
MORE = {  # of a kind: one, and several
    "association": (", and so does one more", ", and so do {} more"),
    "together": (". One more pair is lost", ". {} more pairs are lost"),
    "ages": (". One more age of a code is far off", ". {} more ages of codes are far off"),
    "event": (". One more event is far off", ". {} more events are far off"),
    "return": (
        ". After one more value that ends real histories, too many do",
        ". After {} more values that end real histories, too many do",
    ),
    "calendar": (
        ". Weekdays or hours are far off in one more case",
        ". Weekdays or hours are far off in {} more cases",
    ),
    "numbers": (", and one more code is far off", ", and {} more codes are far off"),
    "outside": (", and too many of one more code do", ", and too many of {} more codes do"),
    "beyond": (", and too many of one more column do", ", and too many of {} more columns do"),
    "shift": (". One more column is shifted", ". {} more columns are shifted"),
}


@dataclass(frozen=True)
class Answer:
    """A card of the first screen. `subject` names it in a sentence; `target` and `kept` are those of a use."""

    question: str
    verdict: Verdict
    text: str = NOTHING
    figures: Sequence[Mapping[str, Any]] = ()
    subject: str = ""
    target: str | None = None
    kept: float | None = None

    def to_json(self) -> dict[str, Any]:
        whole: dict[str, Any] = {"target": self.target, "question": self.question, "figures": list(self.figures)}
        whole |= {"verdict": self.verdict.words, "text": self.text, "kept": self.kept}
        return {key: value for key, value in whole.items() if value is not None}


@dataclass(frozen=True)
class Ask:
    """A question of the steward, and the answers that decide it; `good` is None where nobody judged that."""

    question: str
    verdict: Verdict
    bad: bool
    good: bool | None
    answers: Sequence[Answer]

    def to_json(self) -> dict[str, Any]:
        whole = vars(self) | {"verdict": self.verdict.words, "answers": [answer.to_json() for answer in self.answers]}
        return {key: value for key, value in whole.items() if value is not None}


def asks(result: Entry) -> list[Ask]:
    """The two questions of a steward, "Can I use it?" and "Can I share it?"."""
    return [_usable(result), shareable(result)]


def _usable(result: Entry) -> Ask:
    uses = _uses(result)
    found, close = _worst(result), findings.closeness(result["fidelity"])
    answers = [*uses, faithful(result["fidelity"], found), *_for_whom(result)]
    if few := few_rows(result):
        answers[0] = replace(answers[0], text=f"{answers[0].text} {few}.")
    lead, beside = answers[0].verdict, answers[len(uses)].verdict
    if lead in (UNTOLD, GIVEN_AWAY, NOT_COMPUTED) and close is FAR:  # whatever the target might tell
        lead = Verdict(f"No: {_lower(beside.words)}")
    elif uses and lead.good and beside.bad:
        lead = Verdict(f"{lead.words}, but {_chief(_faults(found)) or beside.words.lower()}")
    elif uses and lead.bad and (faults := _faults(found)):
        lead = lead._replace(words=f"{lead.words}, and the table {faults[0]}")
    bad = any(answer.verdict.bad for answer in answers)
    return Ask("Can I use it?", lead, bad, lead.good and not bad, answers)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def few_rows(result: Entry) -> str:
    """What to do if far fewer synthetic rows were judged than there are training rows; empty otherwise."""
    made, real = (result["about"].get("rows", {}).get(part, 0) for part in ("synthetic", "train"))
    if FEW * made >= real:
        return ""
    return f"{made:,} synthetic rows are few for {real:,} training rows: draw as many or more, which costs no privacy, and judge again"


def in_a_sentence(result: Entry) -> str:
    """What the page says, before any figure."""
    use, share = asks(result)
    told = [each for each in (*use.answers, share.answers[0]) if each.verdict not in (NOT_COMPUTED, NOT_ASKED)]
    text = "; ".join(f"{each.subject}: {_lower(each.verdict.words)}" for each in told)
    return closed(text[:1].upper() + text[1:])


def _items(figures: Mapping[str, Entry]) -> list[dict[str, Any]]:
    """Figures of an answer, by their labels: each the summary without the single values."""
    found = [
        {"label": label, "value": each["mean"], "interval": each.get("interval")} for label, each in figures.items()
    ]
    return [{key: item for key, item in each.items() if item is not None} for each in found]


# ---- Is it useful?


def _uses(result: Entry) -> list[Answer]:
    targets, told = result["targets"], (result.get("histories") or {}).get("told", {})
    cards = [
        useful(target, entry, told.get(target), findings.giving_away(target, result["fidelity"]))
        for target, entry in targets.items()
    ]
    if len(cards) <= MOST_TARGETS:
        return cards
    worst = min(cards, key=lambda card: float("inf") if card.kept is None else card.kept)
    text = f"{closed(f'The worst of them is {worst.target}')} {worst.text}"
    subject = f"predicting these {len(cards)} columns"
    return [replace(worst, question=f"Is it useful for {subject}?", subject=subject, text=text)]


def useful(target: str, entry: Entry, past: Entry | None = None, by: Sequence[str] = ()) -> Answer:
    """`by`: the columns that give the target away."""
    found, subject = findings.use(entry, past, given_away=bool(by)), f"predicting {target}"
    share = "all" if (found.kept or 0) >= 1 else f"{100 * max(found.kept or 0, 0):.0f} %"
    gives = {"by": f"{listed(by)} {'give' if len(by) > 1 else 'gives'}", "it": "them" if len(by) > 1 else "it"}
    text = " ".join(REMARKS[key] for key in found.remarks).format(share=share, **gives, **found.scale._asdict())
    kept = None if found.verdict is GIVEN_AWAY else found.kept
    return Answer(f"Is it useful for {subject}?", found.verdict, text, _items(found.figures), subject, target, kept)


# ---- Is it faithful?


def _worst(result: Entry) -> dict[str, Finding]:
    return findings.worst(result["fidelity"], result.get("histories"), result.get("linked"))


def _faults(found: Mapping[str, Finding]) -> list[str]:
    faults = [fault for fault, kinds in FAULTS.items() if any(found[kind].fault for kind in kinds if kind in found)]
    pairs = max((found[kind].many for kind in FAULTS[ASSOCIATION] if kind in found and found[kind].fault), default=0)
    several = {ASSOCIATION: f"loses {pairs} strong associations"} if pairs > 1 else {}
    if "invented" in found and found["invented"].many > 1:  # no number: only the worst are found
        several[INVENTED] = "invents strong associations"
    return [several.get(fault, fault) for fault in faults]


def _chief(faults: Sequence[str]) -> str:
    """The last fault, and beside invented associations those that are lost."""
    return " and ".join(
        fault for fault in faults if fault == faults[-1] or ("associat" in fault and "invents" in faults[-1])
    )


def faithful(fidelity: Entry, found: Mapping[str, Finding]) -> Answer:
    question, subject, verdict, faults = "Is it faithful?", "faithfulness", findings.closeness(fidelity), _faults(found)
    if verdict is NOT_COMPUTED:
        return Answer(question, verdict, subject=subject)
    figures = {label: fidelity[key] for label, key in SHOWN.items() if key in fidelity}
    means = [
        f"{words} by {figures[label]['mean']:.3f} ({figures[label]['floor']['mean']:.3f})"
        for label, words in DISTANCES.items()
        if label in figures
    ]
    parts = [
        f"On average {' and '.join(means)} (total variation distance; in brackets, the same for real held-out rows)."
    ]
    if "detection" in figures:
        auroc = f"AUROC {figures['detection']['mean']:.2f} (0.5: no better than chance; 1: always)"
        parts.append(f"A classifier tells synthetic rows from real ones with {auroc}.")
    twice = "below" in found and found["below"].what == found["histories"].what
    for kind, each in found.items():
        if kind != "below" or not twice:
            parts.append(_words(SENTENCES["gone" if kind == "association" and each.fault else kind], each))
    words = ", and ".join([", ".join([verdict.words, *faults[:-1]]), *faults[-1:]])
    verdict = Verdict(words, verdict.good and not faults, verdict.bad or bool(faults))
    return Answer(question, verdict, " ".join(parts), _items(figures), subject)


def _words(sentence: str, found: Finding) -> str:
    one, several = MORE.get(found.kind, ("", ""))
    more = ("", one, several.format(found.many - 1))[min(found.many, 3) - 1]
    shares = (
        {} if found.kind in ("numbers", "shift") else {"made": percent(found.synthetic), "held": percent(found.real)}
    )
    return sentence.format(**found._asdict(), **shares, more=more)


# ---- For whom does it fail?


def _for_whom(result: Entry) -> list[Answer]:
    """On the group that loses most when models are trained on synthetic rows."""
    question, targets = "For whom does it fail?", result["targets"]
    worst = findings.worst_group(targets)
    if worst is None:
        text = "No subgroup (sex, age, ethnicity) was judged, so this page cannot show whether one fares badly."
        return [Answer(question, NOT_ASKED, text)] if targets else []
    text = group_text(worst.target, worst.column, worst.group)
    others = sum(len(entry.get("subgroups", {})) for entry in targets.values()) - 1
    if others:
        text += f" There {'is one more table' if others == 1 else f'are {others} more tables'} of subgroups below."
    level = worst.level
    figures = _items({"synthetic": level["tstr"], "real": level["trtr"], "gap": findings.gap_of(level)})
    return [Answer(question, Verdict(_whom(worst, targets)), text, figures, "groups")]


def _whom(worst: Loss, targets: Mapping[str, Entry]) -> str:
    """The verdict on the worst level, whose gap may be chance while that of another is not."""
    level = worst.level
    name = f"{worst.column} = {level['level']} when predicting {worst.target}"
    if level["gap"] <= 0:
        return "No group loses anything"
    if findings.clear(level) or level.get("gap_interval") is None:
        return f"The largest loss is for {name}"
    clear = [each for each in findings.losses(targets) if findings.clear(each.level)]
    others = dict.fromkeys(f"{each.column} = {each.level['level']}" for each in clear)
    if not others:
        return f"No group loses more than chance could explain; the largest gap is for {name}"
    return (
        f"The largest gap is for {name}, but it may be chance; chance does not explain the gap for {', '.join(others)}"
    )


def group_text(target: str, column: str, group: Entry) -> str:
    """Who fares worst in one table of subgroups, and whether that may be chance."""
    judged = [level for level in group["levels"] if "reason" not in level]
    left = len(group["levels"]) - len(judged)
    rest = f" {left} of {len(group['levels'])} groups could not be judged." if left else ""
    worst = next((level for level in judged if level["level"] == group["worst"]), None)
    if worst is None:
        return "No group stands out as the worst." + rest
    text = (
        f"Models that predict {target} lose most for {column} = {worst['level']} ({worst['rows']:,} rows): "
        f"{METRIC_LABELS[group['metric']]} {said(worst['tstr'])} when trained on synthetic rows, "
        f"{said(worst['trtr'])} when trained on real ones, a gap of {said(findings.gap_of(worst))}."
    )
    own = worst.get("gap_interval")
    spans = [level["gap_interval"] for level in judged if level is not worst and level.get("gap_interval") is not None]
    if own is not None and own[0] <= 0:
        others = [str(level["level"]) for level in judged if findings.clear(level)]
        text += " Its interval reaches 0, so this may be chance"
        text += f"; that of {', '.join(others)} does not." if others else ", as do those of all other groups."
    elif own is not None and spans:
        apart = any(span[1] < own[0] for span in spans)
        text += " That is more than some other groups lose" if apart else " Other groups may lose as much"
        text += f": their intervals {'end below its own' if apart else 'overlap with its own'}."
    return text + rest


# ---- Could someone be found? What the attacks say, in the light of the guarantee.


def shareable(result: Entry) -> Ask:
    run = result.get("attacks") or ()
    found = findings.attacks(run)
    verdict, told = _found(found) if run else (ONLY_GUARANTEE, "Not tested")
    parts = [] if run else ["No attack was run."]
    figures: list[dict[str, Any]] = []
    if found.shown is not None:
        parts, figures = [_strongest(*found.shown), *_by_chance(found)], _figures(found.shown[1])
    text = " ".join([*parts, _promise(result["about"].get("claim"))])
    answers = [
        Answer("Could someone be found?", Verdict(told), text, figures, "attacks"),
        Answer("And this page?", Verdict("Never"), PAGE),
    ]
    return Ask("Can I share it?", verdict, bool(found.refuted or found.concerns), verdict.good, answers)


def _found(found: Attacks) -> tuple[Verdict, str]:
    """Whether the records may be shared, as far as attacks can tell; and what they found."""
    tried, concerns = len(found.tried), found.concerns
    if not tried:
        return ONLY_GUARANTEE, "No attack could be computed"
    if found.refuted:
        told = f"{found.refuted[0]['title']} finds more than the guarantee allows"
        return Verdict("No: the guarantee does not hold for these records"), told
    if not concerns:
        none = "The one attack did no" if tried == 1 else f"None of {tried} attacks did"
        return NO_REASON, f"{none} better than its baseline"
    some = "The one attack" if tried == 1 else f"{len(concerns)} of {tried} attacks"
    names = ", ".join(attack["title"] for attack in concerns)
    figures = [figure for attack in concerns for figure in attack["figures"]]
    if all(figure.get("bound") is not None for figure in figures):
        more = any(figure.get("better") != "higher" and figure["value"] > figure["bound"] for figure in figures)
        told = f"{some} found something, {'not clearly more than' if more else 'within what'} the guarantee allows: {names}"
        return Verdict("Only if you accept what epsilon allows"), told
    return Verdict("Not before you understand what the attacks found"), f"{some} found something: {names}"


def _figures(figure: Entry) -> list[dict[str, Any]]:
    rest = [{"label": key, "value": figure[key]} for key in ("baseline", "bound") if figure.get(key) is not None]
    return [*_items({"attack": {**figure, "mean": figure["value"]}}), *rest]


def _strongest(attack: Entry, figure: Entry) -> str:
    text = (
        f"The strongest attack, measured against its baseline, is {attack['title']}: {figure['label']} {said(figure)}"
    )
    if figure.get("baseline") is not None:
        text += f"; its baseline is {said(figure['baseline'])}"
    if figure.get("bound") is not None:
        text += f"; the guarantee allows at most {said(figure['bound'])}"
    return text + "."


def _by_chance(found: Attacks) -> list[str]:
    """That one attack of several may have found something by chance, where none contradicts the guarantee."""
    tried = len(found.tried)
    if len(found.concerns) != 1 or tried == 1 or found.refuted:
        return []
    return [f"Each attack may be wrong in up to 5 % of cases, so one of {tried} may find something by chance."]


def _promise(claim: Entry | None) -> str:
    if claim is None:
        return "Attacks that fail prove nothing. Whether the synthetic records may be shared depends on the statement of their release."
    relation = " under replace_one" if claim.get("relation") == "replace_one" else ""
    return (
        f"Attacks that fail prove nothing, whereas the bound of the guarantee (epsilon {small(claim['epsilon'])}, delta "
        f"{small(claim['delta'])}, per {claim['unit']}{relation}) holds for every attacker. Decide by the statement of the release."
    )


# ---- The page's remark on held-out records, and the lines of a terminal.


def overlapping(result: Entry) -> str:
    """A sentence on held-out records that were fitted too; empty where there are none."""
    found = result["about"].get("overlap")
    if found is None:
        return ""
    what = "units (patients)" if found["of"] == "units" else "rows"
    return (
        f"{found['shared']:,} of the {found['all']:,} held-out {what} are among the training records too, so the scores say too "
        "little of new records. synthdp split holds records out, before a fit."
    )


def brief(result: Entry) -> list[tuple[str, str]]:
    """(label, words) on subgroups and attacks, for a terminal; nothing of what was not judged."""
    found, worst = _worst(result), findings.worst_group(result["targets"])
    parts = result["fidelity"], result.get("histories"), result.get("linked")
    lost, invented = findings.lost_associations(*parts), findings.invented_associations(*parts)
    gone = findings.lost_by_half(lost)
    told = {kind: _words(LINES[kind], each) for kind, each in found.items() if kind in LINES}
    lines = {"held out?": overlapping(result), "rules": told.get("rule"), "rows": few_rows(result)}
    counted = f"{len(gone)} of {findings.STRONG} or more lost half or more{', among them' * (len(gone) > BRIEFLY)}"
    for label, begin, told_of in (
        ("associations", *((counted, gone) if len(gone) > 1 else ("lost most", lost))),
        ("invented", "associations that are too strong", invented),
    ):
        if told_of:
            named = "; ".join(_words(f"{{what}} {LOST}", each) for each in told_of[:BRIEFLY])
            lines[label] = f"{begin}: {named}"
    beside = {
        "below visits": "below",
        "together": "together",
        "by age": "ages",
        "events": "event",
        "last visits": "return",
        "calendar": "calendar",
        "numbers": "numbers",
        "outside": "outside",
        "out of range": "beyond",
        "shifted": "shift",
    }
    lines |= {label: told.get(kind) for label, kind in beside.items()}
    codes = []
    for column, levels in result["fidelity"].get("code_levels", {}).items():
        kept = f"{column}: {percent(levels[-1]['kept'])} of synthetic codes are as fine as real ones; total variation distance"
        far = ", ".join(f"{each['tvd']:.2f} at level {each['level']}" for each in reversed(levels))
        codes.append(("codes", f"{kept} {far}"))
    last = []
    if worst is not None:
        metric, made, real = METRIC_LABELS[worst.group["metric"]], said(worst.level["tstr"]), said(worst.level["trtr"])
        last.append(
            ("subgroups", f"{_whom(worst, result['targets'])}: {metric} {made}; trained on real records {real}")
        )
    if result.get("attacks"):
        last.append(("attacks", shareable(result).answers[0].verdict.words))
    return [(label, words) for label, words in lines.items() if words] + codes + last
