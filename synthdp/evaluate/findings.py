"""What the figures say, in a sentence or two each: the page's first screen, and `answers` of evaluation.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from synthdp.evaluate.figures import is_lost, kept, said, small
from synthdp.evaluate.scores import METRIC_LABELS

# ---- Could someone be found? What the attacks say, in the light of the guarantee: the second half of the first screen.


APPENDIX = ("closeness",)  # attacks that the page tells last: what they pass is no evidence
QUESTION = "Can I share it?"
NO_REASON = "The attacks found no reason not to"
PAGE = "This page must not be shared: it contains exact statistics of real records."


def found(result: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to "Can I share it?", in the form of `words.asks`. An attack at chance is a pass; one above its bound
    refutes the guarantee: either these records were made without it, or it is broken."""
    attacks = result.get("attacks")
    answer: dict[str, Any] = {"question": "Could someone be found?", "figures": []}
    if not attacks:
        told = {"verdict": "Not tested", "text": "No attack was run. " + _promise(result)}
        return _ask("Only the guarantee can tell", False, {**answer, **told})
    refuted = [(a, f) for a in attacks for f in a["figures"] if above(f)]
    concerns = [a for a in attacks if a["verdict"] == "concern"]
    tried = [a for a in attacks if a["verdict"] != "not computed" and (a["id"] not in APPENDIX or a in concerns)]
    pairs = [(a, f) for a in concerns or tried for f in a["figures"]]
    candidates = refuted or [pair for pair in pairs if decides(pair[1])] or pairs
    shown = max(candidates, key=lambda pair: _excess(pair[1]), default=None)  # the furthest beyond its baseline
    if shown is not None:
        answer["figures"] = _figures(shown[1])
    text = "" if shown is None else _told(*shown) + " "
    if not tried:
        answer["verdict"], verdict = "No attack could be computed", "Only the guarantee can tell"
    elif refuted:
        answer["verdict"] = f"{refuted[0][0]['title']} finds more than the guarantee allows"
        verdict = "No: the guarantee does not hold for these records"
    elif concerns:
        names = ", ".join(attack["title"] for attack in concerns)
        allowed = all(f.get("bound") is not None for a in concerns for f in a["figures"])
        within = ", within what the guarantee allows" if allowed else ""
        some = "The one attack" if len(tried) == 1 else f"{len(concerns)} of {len(tried)} attacks"
        answer["verdict"] = f"{some} found something{within}: {names}"
        verdict = (
            "Only if you accept what epsilon allows" if allowed else "Not before you understand what the attacks found"
        )
    else:
        none = "The one attack did no" if len(tried) == 1 else f"None of {len(tried)} attacks did"
        answer["verdict"] = f"{none} better than its baseline"
        verdict = NO_REASON
    return _ask(verdict, bool(refuted or concerns), {**answer, "text": text + _promise(result)})


def above(item: Mapping[str, Any]) -> bool:
    """Whether a figure contradicts its bound, that is, its whole interval lies above. False for a figure without an
    interval."""
    bound, interval = item.get("bound"), item.get("interval")
    return bound is not None and interval is not None and item["better"] != "higher" and bool(interval[0] > bound)


def _ask(verdict: str, bad: bool, answer: Mapping[str, Any]) -> dict[str, Any]:
    page = {"question": "And this page?", "verdict": "Never", "figures": [], "text": PAGE}
    good = verdict == NO_REASON
    return {"question": QUESTION, "verdict": verdict, "bad": bad, "good": good, "answers": [answer, page]}


def _promise(result: Mapping[str, Any]) -> str:
    claim = result["about"].get("claim")
    if claim is None:
        return "Attacks that fail prove nothing. Whether the synthetic records may be shared depends on the statement of their release."
    relation = " under replace_one" if claim.get("relation") == "replace_one" else ""
    return (
        f"Attacks that fail prove nothing, whereas the bound of the guarantee (epsilon {small(claim['epsilon'])}, delta "
        f"{small(claim['delta'])}, per {claim['unit']}{relation}) holds for every attacker. Decide by the statement of the release."
    )


def decides(item: Mapping[str, Any]) -> bool:
    """Whether a figure makes its attack a concern: its whole interval lies beyond the baseline, on the attacker's side."""
    baseline, interval = item.get("baseline"), item.get("interval")
    if baseline is None or interval is None:
        return False
    return bool(interval[1] < baseline if item.get("better") == "higher" else interval[0] > baseline)


def _excess(item: Mapping[str, Any]) -> float:
    if item.get("baseline") is None or (item.get("better") == "higher" and not decides(item)):
        return float("-inf")
    return abs(float(item["value"] - item["baseline"])) if decides(item) else float(item["value"] - item["baseline"])


def _figures(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    own = {"label": "attack", "value": item["value"]}
    if item.get("interval") is not None:
        own["interval"] = item["interval"]
    rest = [{"label": key, "value": item[key]} for key in ("baseline", "bound") if item.get(key) is not None]
    return [own, *rest]


def _told(attack: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    """The strongest attack in a sentence."""
    text = f"The strongest attack, measured against its baseline, is {attack['title']}: {item['label']} {said(item)}"
    if item.get("baseline") is not None:
        text += f"; its baseline is {said(item['baseline'])}"
    if item.get("bound") is not None:
        text += f"; the guarantee allows at most {said(item['bound'])}"
    return text + "."


CHANCE = 0.5
# A ceiling closer to chance than this says nothing about the synthetic rows.
LEAST_SIGNAL = 0.02
ALWAYS = 0.9995  # a figure of models trained on real rows that is shown as 1.000: they are always right
# A rule that this share of synthetic rows break beyond real ones is named in the verdict.
MOST_BROKEN = 0.01
# More cards than this are folded into one that speaks of the worst target.
MOST_TARGETS = 2
GOOD = ("Nearly", "Useful", "As close", "Close to")
FAULTS = (  # with which a verdict ends
    "loses a strong association",
    "distorts the histories",
    "breaks a declared rule",
    "misplaces numbers below visits",
)
BAD = ("Hardly", "Not useful", "Far", "Partly useful", "Recognisable")
UNTOLD, FARTHEST = "Cannot be told", "Far from the real rows"
GRADES = (  # the least share that synthetic rows keep of what real rows offer, and the verdict
    (0.95, "Nearly as useful as real rows"),
    (0.85, "Useful, with a visible loss"),
    (0.5, "Partly useful: much of the signal is lost"),
    (0.1, "Hardly useful"),
    (float("-inf"), "Not useful: no better than chance"),
)
MOST_LOST = 10  # associations in a table
BRIEFLY = 3  # associations for a terminal
FEW = 2  # times as many training rows as synthetic ones
FAR = 1.0  # real ranges by which the quantiles of a code's numbers are farther off than held-out ones where it is named
# An association whose loss a verdict names if so much of it is gone; histories, if they differ by so much.
STRONG, MUCH = 0.3, 0.5
NOTHING = {"verdict": "Not computed", "text": "See the list of what was not computed, below."}


def asks(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The two questions of a steward, "Can I use it?" and "Can I share it?", each {"question", "verdict", "bad", "good",
    "answers": [{"question", "verdict", "figures": [{"label", "value", "interval"?}], "text"}]}."""
    uses = _uses(result["targets"], (result.get("histories") or {}).get("told", {}))
    linked = result.get("linked") or {}
    below = {name: linked.get(name, ()) for name in ("together", "numbers")} | {"apart": linked.get("apart", {})}
    close = faithful(result["fidelity"], {**(result.get("histories") or {}), **below})
    whom = for_whom(result["targets"])
    if whom is None and result["schema_version"] > 1 and result["targets"]:
        text = "No subgroup (sex, age, ethnicity) was judged, so this page cannot show whether one fares badly."
        whom = {"question": "For whom does it fail?", "figures": [], "verdict": "Not asked", "text": text}
    answers = [*uses, close, *([whom] if whom else [])]
    if few := few_rows(result):
        answers[0] = {**answers[0], "text": f"{answers[0]['text']} {few}."}
    lead = (uses or [close])[0]["verdict"]
    if lead in (UNTOLD, NOTHING["verdict"]) and close["verdict"].startswith(FARTHEST):  # whatever the target might tell
        lead = f"No: {close['verdict'][:1].lower()}{close['verdict'][1:]}"
    elif uses and lead.startswith(GOOD) and poor(close["verdict"]):
        fault = next((each for each in FAULTS if close["verdict"].endswith(each)), close["verdict"].lower())
        lead = f"{lead}, but {fault}"
    bad = any(poor(answer["verdict"]) for answer in answers)
    good = not bad and lead.startswith(GOOD)
    use = {"question": "Can I use it?", "verdict": lead, "bad": bad, "good": good, "answers": answers}
    return [use, found(result)]


def poor(verdict: str) -> bool:
    """Whether a verdict is bad news."""
    return verdict.startswith(BAD) or verdict.endswith(FAULTS)


def few_rows(result: Mapping[str, Any]) -> str:
    """What to do if far fewer synthetic rows were judged than there are training rows; empty otherwise."""
    made, real = (result["about"].get("rows", {}).get(part, 0) for part in ("synthetic", "train"))
    if FEW * made >= real:
        return ""
    return f"{made:,} synthetic rows are few for {real:,} training rows: draw as many or more, which costs no privacy, and judge again"


def in_a_sentence(result: Mapping[str, Any]) -> str:
    """What the page says, before any figure."""
    use, share = asks(result)
    parts = [
        f"{_subject(answer)}: {answer['verdict'][:1].lower()}{answer['verdict'][1:]}"
        for answer in (*use["answers"], share["answers"][0])
        if answer["verdict"] not in (NOTHING["verdict"], "Not asked")
    ]
    return "; ".join(parts)[:1].upper() + "; ".join(parts)[1:] + "."


def _subject(answer: Mapping[str, Any]) -> str:
    question = str(answer["question"])
    named = {
        "Is it faithful?": "faithfulness",
        "For whom does it fail?": "groups",
        "Could someone be found?": "attacks",
    }
    return named.get(question) or question.removeprefix("Is it useful for ").rstrip("?")


def lost_associations(found: Mapping[str, Any], histories: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The pairs of columns whose association synthetic rows lost most, within a row and from one record of a person to the next:
    {"columns", "train", "synthetic"}."""
    entry: Mapping[str, Any] = found.get("correlation_difference") or {"names": ()}
    onward = ((histories or {}).get("onward") or {}).get("pairs", ())
    pairs = [
        (f"{second} and {first}", entry["train"][i][j], entry["synthetic"][i][j])
        for i, first in enumerate(entry["names"])
        for j, second in enumerate(entry["names"][:i])
    ]
    pairs += [(f"{pair['present']} and the last {pair['last']}", pair["train"], pair["synthetic"]) for pair in onward]
    rows: list[dict[str, Any]] = [
        {"columns": columns, "train": real, "synthetic": made} for columns, real, made in pairs if is_lost(real, made)
    ]
    return sorted(rows, key=lambda row: kept(row["train"], row["synthetic"]))[:MOST_LOST]


def _from_to(lost: Mapping[str, Any]) -> str:
    return f"{lost['train']:.2f} among real rows, {lost['synthetic']:.2f} among synthetic ones"


def _uses(targets: Mapping[str, Any], told: Mapping[str, Any]) -> list[dict[str, Any]]:
    cards = [useful(target, entry, told.get(target)) for target, entry in targets.items()]
    if len(cards) <= MOST_TARGETS:
        return cards
    worst = min(cards, key=lambda card: card.get("kept", float("inf")))
    text = f"The worst of them is {worst['target']}. {worst['text']}"
    return [{**worst, "question": f"Is it useful for predicting these {len(cards)} columns?", "text": text}]


def useful(target: str, entry: Mapping[str, Any], past: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """{"target", "question", "verdict", "figures", "text"} on what models trained on the synthetic rows are worth, and
    "kept", the share of what real rows offer above guessing, if it can be computed. `past`: the same of a model that also sees the
    unit's earlier records (`history_fidelity`); histories are judged by it if it predicts better."""
    metric, guess, name, said_guess = ("auroc", CHANCE, "AUROC", f"chance ({CHANCE})")
    if entry.get("kind") == "number":
        metric, guess, name, said_guess = ("r2", 0.0, "R²", "always predicting the mean")
    averages = {arm: scores[metric] for arm, scores in entry["average"].items() if metric in scores}
    real, made, floor = (averages.get(arm) for arm in ("trtr", "tstr", "independent"))
    answer: dict[str, Any] = {"target": target, "question": f"Is it useful for predicting {target}?", "figures": []}
    if made is None and real is not None:
        answer["figures"] = [_item("real", real)]
        text = "The synthetic rows hold too few values of this column to train a model on: the fit lost it."
        return {**answer, "verdict": "Not useful: this column was lost", "text": text, "kept": 0.0}
    if made is None or real is None or floor is None:
        return {**answer, **NOTHING}
    answer["figures"] = [_item("synthetic", made), _item("real", real), _item("floor", floor)]
    text = (
        f"The figures are the mean {name}, on real held-out rows, of models trained on synthetic rows, on real rows (the ceiling) "
        "and on rows whose columns are unrelated (the floor)."
    )
    if past is not None and name == "AUROC" and past["trtr"]["all"] > real["mean"]:
        made, real, alone = ({"mean": past[arm]["all"]} for arm in ("tstr", "trtr", "without"))
        answer["figures"] = [_item("synthetic", made), _item("real", real), _item("real, no past", alone)]
        text = (
            "The figures are the AUROC, on real held-out rows, of a model that sees a row and what came before it: trained on synthetic "
            "rows, on real rows (the ceiling) and on real rows without what came before them."
        )
    signal = real["mean"] - guess
    if signal < LEAST_SIGNAL:
        text += (
            " Models trained on real rows hardly predict this column either, so it does not test the synthetic rows."
        )
        return {**answer, "verdict": UNTOLD, "text": text}
    if real.get("interval") is not None and real["interval"][0] <= guess:
        text += (
            f" On these held-out rows, models trained on real rows are not clearly better than {said_guess} either, so the figures cannot "
            "tell what the synthetic rows are worth: hold out more rows, or judge by another column."
        )
        return {**answer, "verdict": UNTOLD, "text": text}
    kept = (made["mean"] - guess) / signal
    share = "all" if kept >= 1 else f"{100 * max(kept, 0):.0f} %"
    text += f" Synthetic rows keep {share} of what real rows offer above {said_guess}."
    if real["mean"] >= ALWAYS:
        text += (
            " Models trained on real rows are always right: another column may give this one away, and then the figures say nothing "
            "of the rest. Leave such a column out to learn more; synthdp check names those that it finds."
        )
    verdict = next(words for least, words in GRADES if kept >= least)
    return {**answer, "verdict": verdict, "text": text, "kept": kept}


def _item(label: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """One figure of an answer: its summary without the single values."""
    spread = {key: value[key] for key in ("interval",) if value.get(key) is not None}
    return {"label": label, "value": value["mean"], **spread}


def faithful(found: Mapping[str, Any], histories: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same on how close the synthetic rows are to the real ones, and `histories` of them."""
    answer: dict[str, Any] = {"question": "Is it faithful?", "figures": []}
    if "tvd_1way" not in found:
        return {**answer, **NOTHING}
    one = found["tvd_1way"]
    answer["figures"] = [_item("single columns", one)]
    parts = [f"single columns differ from the real training rows by {_apart(one)}"]
    excess = one["mean"] - one["floor"]["mean"]
    if "tvd_2way" in found:
        two = found["tvd_2way"]
        answer["figures"].append(_item("pairs", two))
        parts.append(f"pairs of columns by {_apart(two)}")
        excess = two["mean"] - two["floor"]["mean"]
    text = (
        "On average "
        + " and ".join(parts)
        + " (total variation distance; in brackets, the same for real held-out rows)."
    )
    detection = 1.0
    if "detection_auc" in found:
        detection = found["detection_auc"]["mean"]
        answer["figures"].append(_item("detection", found["detection_auc"]))
        text += f" A classifier tells synthetic rows from real ones with AUROC {detection:.2f} (0.5: no better than chance; 1: always)."
    lost = lost_associations(found, histories)
    if lost:
        text += f" The association of {lost[0]['columns']} loses most: {_from_to(lost[0])}."
    farthest = worst_of_histories(histories or {})
    if farthest is not None:
        what, made, real = farthest
        text += f" Among the histories, the largest difference is in {what}: {made:.3f} ({real:.3f} in held-out ones)."
    below = worst_pair_below((histories or {}).get("apart", {}))
    if below is not None and below != farthest:
        what, made, real = below
        text += f" Below the visits, the largest difference is in {what}: {made:.3f} ({real:.3f} in held-out ones)."
    apart = lost_pairs((histories or {}).get("together", ()))
    if apart is not None:
        text += f" {apart}."
    off = worst_numbers((histories or {}).get("numbers", ()))
    if off is not None:
        text += f" Among the numbers below the visits, {off}."
    verdict, worst = _closeness(excess, detection), worst_rule(found)
    gone = [each for each in lost if kept(each["train"], each["synthetic"]) <= -MUCH * abs(each["train"])]
    faults = [FAULTS[0]] if apart is not None or any(abs(each["train"]) >= STRONG for each in gone) else []
    if farthest is not None and farthest[1] - farthest[2] >= MUCH:
        faults.append(FAULTS[1])
    if worst is not None:
        text += (
            f" {_share(worst['synthetic'])} of synthetic rows break the rule {worst['rule']} ({_share(worst['train'])} of real "
            "ones do)."
        )
        if worst["synthetic"] - worst["train"] > MOST_BROKEN:
            faults.append(FAULTS[2])
    if off is not None:
        faults.append(FAULTS[3])
    verdict = ", and ".join([verdict, *faults])
    return {**answer, "verdict": verdict, "text": text}


def worst_of_histories(found: Mapping[str, Any]) -> tuple[str, float, float] | None:
    """Of the figures of histories the one that is farthest beyond that of real held-out people: what it is of, and both figures."""
    figures = {"numbers of records": found.get("records_per_unit"), "gaps between records": found.get("gaps")}
    figures |= {f"previous and present {name}": each for name, each in found.get("transitions", {}).items()}
    figures |= {
        "types of two visits in a row": found.get("steps"),
        "types of three visits in a row": found.get("orders"),
    }
    figures |= {f"the people who ever have each {each['column']}": each for each in found.get("ever", ())}
    figures |= {f"times until {each['event']}": each for each in found.get("survival") or ()}
    return _farthest({**figures, **{_as_said(what): each for what, each in found.get("apart", {}).items()}})


def worst_pair_below(apart: Mapping[str, Any]) -> tuple[str, float, float] | None:
    """The same of pairs of columns of a table below visits, which a worse figure of histories would hide."""
    return _farthest({_as_said(what): each for what, each in apart.items() if ", " in what})


def worst_numbers(columns: Sequence[Mapping[str, Any]]) -> str | None:
    """In words, the code whose numbers lie farthest off (`numbers_by_code`); None where none is off by more than `FAR`."""
    from synthdp.evaluate.numbers_by_code import said as quantiles_said  # loads pandas

    far = [(column, code) for column in columns for code in column["codes"] if far_off(code)]
    if not far:
        return None
    column, code = max(far, key=lambda pair: _beyond(pair[1]))
    made, real = (" / ".join(quantiles_said(column, code, which)) for which in ("synthetic", "train"))
    more = {1: "", 2: ", and one more code is far off"}.get(len(far), f", and {len(far) - 1} more codes are far off")
    return (
        f"{column['column']} of {column['by']} = {code['code']} is farthest off: 10 %, 50 % and 90 % of synthetic ones lie "
        f"below {made}, of real ones below {real}{more}"
    )


def lost_pairs(found: Sequence[Mapping[str, Any]]) -> str | None:
    """In words, the pair of codes of the same visit that is lost most (see `codes_together`); None if no pair is lost. A pair is lost if
    real visits with the first code have the second more often than all real visits do, by at least `STRONG`, and synthetic visits lack
    at least `MUCH` of this excess."""
    lost = []
    for each in found:
        one, other = each["columns"]
        for pair in each["pairs"]:
            if pair["synthetic"] is None or pair["test"] is None:
                continue
            beyond, gone = pair["train"] - pair["chance"], min(pair["train"], pair["test"]) - pair["synthetic"]
            if beyond >= STRONG and gone >= MUCH * beyond:
                words = f"{_share(pair['synthetic'])} of synthetic visits with {one} = {pair['code']} have {other} = {pair['other']}"
                lost.append((gone, f"{words}; {_share(pair['train'])} of real ones do"))
    if not lost:
        return None
    more = {1: "", 2: ". One more pair is lost"}.get(len(lost), f". {len(lost) - 1} more pairs are lost")
    return f"{max(lost)[1]}{more}"


def far_off(code: Mapping[str, Any]) -> bool:
    """Whether the numbers of a code lie so far from the real ones that they are named."""
    return _beyond(code) > FAR


def _beyond(code: Mapping[str, Any]) -> float:
    return 0.0 if code["distance"] is None else float(code["distance"] - (code["real"] or 0))


def _as_said(what: str) -> str:
    return "rows by " * (", " in what) + what.replace(", ", " and ")


def _farthest(figures: Mapping[str, Any]) -> tuple[str, float, float] | None:
    held = {what: (each.get("tvd", each.get("distance")), each["real"]) for what, each in figures.items() if each}
    beyond = [(what, made, real) for what, (made, real) in held.items() if made is not None and made > real]
    return max(beyond, key=lambda figure: float(figure[1] - figure[2]), default=None)


def worst_rule(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The declared rule that synthetic rows break most beyond real ones."""
    rules = [r for r in found.get("rules", ()) if r["synthetic"] is not None and r["train"] is not None]
    broken = [rule for rule in rules if rule["synthetic"] > rule["train"]]
    return max(broken, key=lambda rule: float(rule["synthetic"] - rule["train"]), default=None)


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _apart(entry: Mapping[str, Any]) -> str:
    return f"{entry['mean']:.3f} ({entry['floor']['mean']:.3f})"


def _closeness(excess: float, detection: float) -> str:
    if excess <= 0.01 and detection <= 0.55:
        return "As close as real rows are to each other"
    if excess <= 0.05 and detection <= 0.75:
        return "Close to the real rows"
    if excess <= 0.15:
        return "Recognisable, with visible differences"
    return FARTHEST


def for_whom(targets: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same for the group that loses most when models are trained on synthetic rows; None where no subgroup was judged."""
    worst = worst_group(targets)
    if worst is None:
        return None
    target, column, group, level = worst
    text = group_text(target, column, group)
    others = len([g for entry in targets.values() for g in entry.get("subgroups", {}).values()]) - 1
    if others:
        text += f" There {'is one more table' if others == 1 else f'are {others} more tables'} of subgroups below."
    answer = {
        "question": "For whom does it fail?",
        "verdict": _whom(targets, level, f"{column} = {level['level']} when predicting {target}"),
        "figures": [_item("synthetic", level["tstr"]), _item("real", level["trtr"]), _item("gap", gap_of(level))],
    }
    return {**answer, "text": text}


def overlapping(result: Mapping[str, Any]) -> str:
    """A sentence on held-out records that were fitted too; empty where there are none."""
    found = result["about"].get("overlap")
    if found is None:
        return ""
    what = "units (patients)" if found["of"] == "units" else "rows"
    return (
        f"{found['shared']:,} of the {found['all']:,} held-out {what} are among the training records too, so the scores say too "
        "little of new records. synthdp split holds records out, before a fit."
    )


def brief(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, words) on subgroups and attacks, for a terminal; nothing of what was not judged."""
    lines = []
    if shared := overlapping(result):
        lines.append(("held out?", shared))
    rule = worst_rule(result["fidelity"])
    if rule is not None:
        lines.append(
            (
                "rules",
                f"{_share(rule['synthetic'])} of synthetic rows and {_share(rule['train'])} of real rows break {rule['rule']}",
            )
        )
    if few := few_rows(result):
        lines.append(("rows", few))
    if lost := lost_associations(result["fidelity"], result.get("histories")):
        named = "; ".join(f"{each['columns']} {_from_to(each)}" for each in lost[:BRIEFLY])
        lines.append(("associations", f"lost most: {named}"))
    if below := worst_pair_below((result.get("linked") or {}).get("apart", {})):
        what, made, real = below
        lines.append(("below visits", f"{what} total variation distance {made:.3f}; of held-out people {real:.3f}"))
    if apart := lost_pairs((result.get("linked") or {}).get("together", ())):
        lines.append(("together", apart))
    if off := worst_numbers((result.get("linked") or {}).get("numbers", ())):
        lines.append(("numbers", off))
    for column, levels in result["fidelity"].get("code_levels", {}).items():
        finest = levels[-1]
        text = (
            f"{column}: {_share(finest['kept'])} of synthetic codes are as fine as real ones; total variation distance"
        )
        far = ", ".join(f"{each['tvd']:.2f} at level {each['level']}" for each in reversed(levels))
        lines.append(("codes", f"{text} {far}"))
    worst = worst_group(result["targets"])
    if worst is not None:
        target, column, group, level = worst
        name = f"{column} = {level['level']} when predicting {target}"
        text = (
            f"{_whom(result['targets'], level, name)}: {METRIC_LABELS[group['metric']]} "
            f"{said(level['tstr'])}; trained on real records "
            f"{said(level['trtr'])}"
        )
        lines.append(("subgroups", text))
    if result.get("attacks"):
        lines.append(("attacks", found(result)["answers"][0]["verdict"]))
    return lines


def _whom(targets: Mapping[str, Any], level: Mapping[str, Any], name: str) -> str:
    """The verdict on the worst level, whose gap may be chance while that of another is not."""
    if level["gap"] <= 0:
        return "No group loses anything"
    if clear(level) or level.get("gap_interval") is None:
        return f"The largest loss is for {name}"
    others = [
        f"{column} = {each['level']}"
        for entry in targets.values()
        for column, group in entry.get("subgroups", {}).items()
        for each in group["levels"]
        if clear(each)
    ]
    if not others:
        return f"No group loses more than chance could explain; the largest gap is for {name}"
    return f"The largest gap is for {name}, but it may be chance; chance does not explain the gap for {', '.join(dict.fromkeys(others))}"


def clear(level: Mapping[str, Any]) -> bool:
    """Whether a level's gap is above 0 beyond its interval."""
    interval = level.get("gap_interval")
    return interval is not None and bool(interval[0] > 0)


def worst_group(targets: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any], Mapping[str, Any]] | None:
    """(target, column, the column's entry, the level's entry) with the largest gap, as a part of the score by real rows
    (targets have different units), among the worst levels of all tables."""
    named = [
        (target, column, group, level)
        for target, entry in targets.items()
        for column, group in entry.get("subgroups", {}).items()
        for level in group["levels"]
        if group["worst"] is not None and level["level"] == group["worst"] and "reason" not in level
    ]
    return max(named, key=lambda found: found[3]["gap"] / max(abs(found[3]["trtr"]["mean"]), 1e-9), default=None)


def group_text(target: str, column: str, group: Mapping[str, Any]) -> str:
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
        f"{said(worst['trtr'])} when trained on real ones, a gap of {said(gap_of(worst))}."
    )
    own = worst.get("gap_interval")
    spans = [level["gap_interval"] for level in judged if level is not worst and level.get("gap_interval") is not None]
    if own is not None and own[0] <= 0:
        others = [str(level["level"]) for level in judged if clear(level)]
        text += " Its interval reaches 0, so this may be chance"
        text += f"; that of {', '.join(others)} does not." if others else ", as do those of all other groups."
    elif own is not None and spans:
        apart = any(span[1] < own[0] for span in spans)
        text += " That is more than some other groups lose" if apart else " Other groups may lose as much"
        text += f": their intervals {'end below its own' if apart else 'overlap with its own'}."
    return text + rest


def gap_of(level: Mapping[str, Any]) -> dict[str, Any]:
    """A level's gap as a summary."""
    return {"mean": level["gap"], "interval": level.get("gap_interval")}
