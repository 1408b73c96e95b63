"""How the figures of a result are judged, as data; `answers` puts it into words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from synthdp.evaluate.figures import beyond_chance, is_clearly_lost, kept

Entry = Mapping[str, Any]  # a part of the result


class Verdict(NamedTuple):
    """A judgement, and whether it is good or bad news. Neither where nothing can be told."""

    words: str
    good: bool = False
    bad: bool = False


NOT_COMPUTED, UNTOLD = Verdict("Not computed"), Verdict("Cannot be told")

# ---- Utility: what models trained on the synthetic rows are worth.


class Scale(NamedTuple):
    """By which metric a target is judged, what guessing scores, and how to guess."""

    metric: str
    name: str
    guess: float
    guessing: str


class Use(NamedTuple):
    """What synthetic rows are worth for one target: `kept` of what real rows offer above guessing, and `answers.REMARKS` by their keys."""

    scale: Scale
    verdict: Verdict
    remarks: Sequence[str]
    figures: Mapping[str, Entry]
    kept: float | None = None


AUROC = Scale("auroc", "AUROC", 0.5, "chance (0.5)")
R2 = Scale("r2", "R²", 0.0, "always predicting the mean")
LEAST_SIGNAL = 0.02  # a ceiling closer to guessing says nothing about the synthetic rows
ALWAYS = 0.9995  # a figure of models trained on real rows that is shown as 1.000: they are always right
GIVES_AWAY = 0.99  # association of another column with such a target that shows where their knowledge comes from
GIVEN_AWAY = Verdict("Cannot be told by a target that another column gives away")
COLUMN_LOST = Verdict("Not useful: this column was lost", bad=True)
GRADES = (  # the least share that synthetic rows keep of what real rows offer, and the verdict
    (0.95, Verdict("Nearly as useful as real rows", good=True)),
    (0.85, Verdict("Useful, with a visible loss", good=True)),
    (0.5, Verdict("Partly useful: {lost} % of the signal is lost", bad=True)),
    (0.1, Verdict("Hardly useful", bad=True)),
    (float("-inf"), Verdict("Not useful: hardly better than guessing", bad=True)),
)


def use(entry: Entry, past: Entry | None = None, *, given_away: bool = False) -> Use:
    """`past`: the same of a model that also sees the unit's earlier records (`history_fidelity`); histories are judged by it if it
    predicts better. `given_away`: another column is known to do so (`giving_away`); if models then never err, their scores say nothing
    but how well that one association was kept."""
    scale = R2 if entry.get("kind") == "number" else AUROC
    averages = {arm: scores[scale.metric] for arm, scores in entry["average"].items() if scale.metric in scores}
    real, made, floor = (averages.get(arm) for arm in ("trtr", "tstr", "independent"))
    if made is None and real is not None:
        return Use(scale, COLUMN_LOST, ["column lost"], {"real": real}, 0.0)
    if made is None or real is None or floor is None:
        return Use(scale, NOT_COMPUTED, ["not computed"], {})
    seen, figures = "mean", {"synthetic": made, "real": real, "floor": floor}
    if past is not None and scale is AUROC and past["trtr"]["all"] > real["mean"]:
        made, real, alone = ({"mean": past[arm]["all"]} for arm in ("tstr", "trtr", "without"))
        seen, figures = "past", {"synthetic": made, "real": real, "real, no past": alone}
    signal = real["mean"] - scale.guess
    if signal < LEAST_SIGNAL:
        return Use(scale, UNTOLD, [seen, "no signal"], figures)
    if real.get("interval") is not None and real["interval"][0] <= scale.guess:
        return Use(scale, UNTOLD, [seen, "few rows"], figures)
    share = (made["mean"] - scale.guess) / signal
    if real["mean"] < ALWAYS:
        return Use(scale, graded(share, GRADES), [seen, "kept"], figures, share)
    if given_away:
        return Use(scale, GIVEN_AWAY, [seen, "kept", "given away"], figures, share)
    return Use(scale, graded(share, GRADES), [seen, "kept", "always right"], figures, share)


def giving_away(target: str, fidelity: Entry) -> list[str]:
    """The columns whose association with a target is all but perfect among real training rows."""
    entry: Entry = fidelity.get("correlation_difference") or {"names": ()}
    if target not in entry["names"]:
        return []
    row = entry["train"][entry["names"].index(target)]
    return [
        name for name, value in zip(entry["names"], row, strict=True) if name != target and abs(value) >= GIVES_AWAY
    ]


def graded(share: float, grades: Sequence[tuple[float, Verdict]]) -> Verdict:
    """The verdict on what synthetic records keep; its words give what they lose as the text beside it gives what they keep."""
    verdict = next(verdict for least, verdict in grades if share >= least)
    return verdict._replace(words=verdict.words.format(lost=100 - round(100 * share))) if share > 0 else verdict


# ---- Fidelity: how close the synthetic rows are to the real ones.


class Finding(NamedTuple):
    """The worst of its kind that synthetic rows get wrong: the figure of them and that of real rows, how `many` are wrong, and whether that
    is a fault of all of them."""

    kind: str
    what: str
    synthetic: Any
    real: Any
    many: int = 1
    fault: bool = False

    @property
    def beyond(self) -> float:
        return float(self.synthetic - self.real)


Off = tuple[
    float, str, Any, Any
]  # by how much a figure is off, what it is, and the figure of synthetic and of real rows
# A fault if MUCH of an association of at least STRONG is gone or invented, or if histories differ by MUCH.
STRONG, MUCH = 0.3, 0.5
MOST_BROKEN = 0.01  # a fault if this share of synthetic rows, and more, break a rule beyond real ones
# Shares by age are named, and a fault, if they are so much farther off than those of held-out people.
BY_AGE, FAR_BY_AGE = 0.1, 0.2
BY_CALENDAR = (
    0.05  # total variation distance of weekdays, or of hours, beyond held-out records, from which on they are named
)
LEAST_EVENTS = 20  # among training people, so that their share can be told
# Numbers may lie outside the range of as many others by chance: 2 on average, 16 in one case of 7,000.
AT_ENDS = 16.0
OFF = 1.0  # real ranges by which the quantiles of a code's numbers are farther off than held-out ones where it is named
FAR = Verdict("Far from the real rows", bad=True)
CLOSENESS = (  # most by which distances exceed those of held-out rows, and most AUROC of detection
    (0.01, 0.55, Verdict("As close as real rows are to each other", good=True)),
    (0.05, 0.75, Verdict("Close to the real rows", good=True)),
    (0.15, 1.0, Verdict("Recognisable, with visible differences", bad=True)),
)


def closeness(fidelity: Entry) -> Verdict:
    if "tvd_1way" not in fidelity:
        return NOT_COMPUTED
    distance = fidelity.get("tvd_2way", fidelity["tvd_1way"])
    excess = distance["mean"] - distance["floor"]["mean"]
    detection = fidelity["detection_auc"]["mean"] if "detection_auc" in fidelity else 1.0
    return next((grade for most, auroc, grade in CLOSENESS if excess <= most and detection <= auroc), FAR)


def worst(fidelity: Entry, histories: Entry | None = None, linked: Entry | None = None) -> dict[str, Finding]:
    """By kind; a kind of which nothing is wrong is not there."""
    linked = linked or {}
    apart = linked.get("apart", {})
    lost = lost_associations(fidelity, histories, linked)
    gone = lost_by_half(lost)
    made_up = invented_associations(fidelity, histories, linked)
    strong_ones = [each for each in made_up if abs(each.synthetic) >= STRONG]
    much = [each for each in strong_ones if abs(each.real) <= MUCH * abs(each.synthetic)]
    below, numbers = _below(linked), fidelity.get("numbers", {})
    numbers = {name: each for name, each in numbers.items() if name.rpartition(" ")[0] not in below}
    found = (
        gone[0]._replace(many=len(gone), fault=True) if gone else next(iter(lost), None),
        much[0]._replace(many=len(much), fault=True) if much else next(iter(made_up), None),
        _farthest("histories", _of_histories(histories or {}) | _named(apart)),
        _farthest("below", _named({what: each for what, each in apart.items() if ", " in what})),
        _most("together", _lost_pairs(linked.get("together", ()))),
        _most("ages", _far_ages((histories or {}).get("ever", ())), FAR_BY_AGE),
        _most("event", _far_events((histories or {}).get("survival") or ())),
        _most("return", _returns((histories or {}).get("final", ()))),
        _most("calendar", _far_dates(fidelity.get("calendar", ())), FAR_BY_AGE),
        _worst_numbers(linked.get("numbers", ())),
        _outside(linked.get("numbers", ())),
        _beyond(numbers),
        _shift(numbers),
        _worst_rule(fidelity.get("rules", ())),
    )
    return {each.kind: each for each in found if each is not None}


def lost_associations(fidelity: Entry, histories: Entry | None = None, linked: Entry | None = None) -> list[Finding]:
    """The pairs of columns whose association synthetic rows lost, within a row and from one record of a person to the next, the one that
    lost most first. Of a column below visits, whose rows stand in no order, the first place speaks for all, and the first two for rows of
    the same visit."""
    entry: Entry = fidelity.get("correlation_difference") or {"names": ()}
    below, by_chance = _below(linked), {tuple(pair) for pair in entry.get("by_chance", ())}
    sets = ("synthetic", "train", "test")
    pairs: list[tuple[str, Entry]] = [
        (what, {each: entry[each][i][j] for each in sets if each in entry})
        for i, first in enumerate(entry["names"])
        for j, second in enumerate(entry["names"][:i])
        if (second, first) not in by_chance and (what := pair_in_words(second, first, below)) is not None
    ]
    pairs += [(_onward_in_words(each), each) for each in _onward(histories)]
    pairs += [(_by_code_in_words(each), each) for each in fidelity.get("numbers_by_code", ())]
    lost = [
        Finding("association", what, told["synthetic"], told["train"]) for what, told in pairs if is_clearly_lost(told)
    ]
    return sorted(lost, key=lambda pair: kept(pair.real, pair.synthetic))


def lost_by_half(lost: Iterable[Finding]) -> list[Finding]:
    """The strong associations of which `MUCH` or more is lost: those that a verdict counts."""
    return [
        each for each in lost if abs(each.real) >= STRONG and kept(each.real, each.synthetic) <= -MUCH * abs(each.real)
    ]


def invented_associations(
    fidelity: Entry, histories: Entry | None = None, linked: Entry | None = None
) -> list[Finding]:
    """Those that are stronger among synthetic rows, beyond chance (see `association.invented`), and numbers, dates and codes that stay the
    same from one record of a person to the next more often."""
    entry: Entry = fidelity.get("correlation_difference") or {}
    found = []
    for one, other in entry.get("invented", ()):
        i, j = (entry["names"].index(name) for name in (one, other))
        found.append((pair_in_words(one, other, _below(linked)), entry["synthetic"][i][j], entry["train"][i][j]))
    for each in _onward(histories):
        same = each.get("same", {})
        if each.get("invented"):
            found.append((_onward_in_words(each), each["synthetic"], each["train"]))
        elif same.get("invented"):
            found.append((f"{_onward_in_words(each)} (how often they are equal)", same["synthetic"], same["train"]))
    found += [
        (_by_code_in_words(each), each["synthetic"], each["train"])
        for each in fidelity.get("numbers_by_code", ())
        if each.get("invented")
    ]
    told = [Finding("invented", what, made, real) for what, made, real in found if what is not None]
    return sorted(told, key=lambda each: abs(each.real) - abs(each.synthetic))


def _onward(histories: Entry | None) -> Sequence[Entry]:
    found: Sequence[Entry] = ((histories or {}).get("onward") or {}).get("pairs", ())
    return found


def _onward_in_words(pair: Entry) -> str:
    return f"{pair['present']} and the last {pair['last']}"


def _by_code_in_words(pair: Entry) -> str:
    return f"{pair['number']} of {pair['by']} = {pair['code']} and {pair['with']}"


def _below(linked: Entry | None) -> set[str]:
    """The columns below visits."""
    return {what for what in (linked or {}).get("apart", {}) if ", " not in what}


def pair_in_words(one: str, other: str, below: Set[str]) -> str | None:
    """Two columns in words; None for places of columns `below` visits that say no more than the first ones."""
    parts = [name.rpartition(" ") for name in (one, other)]
    places = [int(at) if column in below and at.isdigit() else 0 for column, _, at in parts]
    tables = [column.partition(".")[0] for column, _, _ in parts]
    if sorted(places) == [1, 2] and tables[0] == tables[1]:
        same = parts[0][0] == parts[1][0]
        return (
            f"{parts[0][0]} of two rows of a visit"
            if same
            else f"{parts[0][0]} and {parts[1][0]} of another row of the visit"
        )
    if max(places) > 1:
        return None
    names = [column if place else name for name, (column, _, _), place in zip((one, other), parts, places, strict=True)]
    return " and ".join(names)


def _of_histories(found: Entry) -> dict[str, Entry | None]:
    return {
        "numbers of records": found.get("records_per_unit"),
        "gaps between records": found.get("gaps"),
        **{f"previous and present {name}": each for name, each in found.get("transitions", {}).items()},
        "types of two visits in a row": found.get("steps"),
        "types of three visits in a row": found.get("orders"),
        **{f"the people who ever have each {each['column']}": each for each in found.get("ever", ())},
        **{f"times until {each['event']}": each for each in found.get("survival") or ()},
    }


def _named(apart: Mapping[str, Entry]) -> dict[str, Entry | None]:
    """By name of one column below visits, or of a pair, whose columns stand with a comma between them."""
    return {"rows by " * (", " in what) + what.replace(", ", " and "): each for what, each in apart.items()}


def _farthest(kind: str, figures: Mapping[str, Entry | None]) -> Finding | None:
    """Of distances to real records the one that is farthest beyond that of held-out people."""
    held = [(what, each.get("tvd", each.get("distance")), each["real"]) for what, each in figures.items() if each]
    beyond = [Finding(kind, what, made, real) for what, made, real in held if made is not None and made > real]
    found = max(beyond, key=lambda each: each.beyond, default=None)
    return found and found._replace(fault=kind == "histories" and found.beyond >= MUCH)


def _worst_rule(rules: Sequence[Entry]) -> Finding | None:
    """The declared rule that synthetic rows break most beyond real ones."""
    told = [Finding("rule", each["rule"], each["synthetic"], each["train"]) for each in rules]
    broken = [each for each in told if None not in each and each.beyond > 0]
    found = max(broken, key=lambda each: each.beyond, default=None)
    return found and found._replace(fault=found.beyond > MOST_BROKEN)


def _most(kind: str, found: Iterable[Off], fault: float = 0.0) -> Finding | None:
    """The one that is farthest off of all that are: a fault from so far on."""
    far = sorted(found)
    return Finding(kind, *far[-1][1:], len(far), fault=far[-1][0] >= fault) if far else None


def _lost_pairs(found: Sequence[Entry]) -> Iterator[Off]:
    """The pairs of codes of the same visit that are lost (`linked.codes_together`). A pair is lost if real visits with the first code
    have the second more often than all real visits do, by at least `STRONG`, and synthetic visits lack at least `MUCH` of this excess."""
    for each in found:
        one, other = each["columns"]
        for pair in each["pairs"]:
            if pair["synthetic"] is None or pair["test"] is None:
                continue
            beyond, gone = pair["train"] - pair["chance"], min(pair["train"], pair["test"]) - pair["synthetic"]
            if beyond >= STRONG and gone >= MUCH * beyond:
                what = f"visits with {one} = {pair['code']} have {other} = {pair['other']}"
                yield gone, what, pair["synthetic"], pair["train"]


def _far_ages(columns: Sequence[Entry]) -> Iterator[Off]:
    """The codes and ages at which the share of people who ever have the code is far off, beyond that of held-out people."""
    rows = ((each["column"], row) for each in columns for row in (each.get("by_age") or {}).get("farthest", ()))
    for column, row in rows:
        beyond = abs(row["synthetic"] - row["train"]) - abs(row["test"] - row["train"])
        if beyond >= BY_AGE:
            what = f"people aged {row['ages']} at their first visit ever have {column} = {row['code']}"
            yield beyond, what, row["synthetic"], row["train"]


def _far_events(curves: Sequence[Entry]) -> Iterator[Off]:
    """The events, such as death, that less than `MUCH` of the people have who should, or that are as much too frequent."""
    for each in (each for each in curves if each.get("events", {}).get("train", 0) >= LEAST_EVENTS):
        made, *real = (each["events"][name] / max(1, each["people"][name]) for name in ("synthetic", "train", "test"))
        if not beyond_chance(made, each["people"]["synthetic"], real[0], each["people"]["train"]):
            continue
        if made <= MUCH * min(real) or max(real) <= MUCH * made:
            yield abs(made - real[0]), f"people have the event {each['event']}", made, real[0]


def _returns(values: Sequence[Entry]) -> Iterator[Off]:
    """The values that end real histories, such as a discharge by death, after which synthetic people have a later visit."""
    for each in values:
        made, real, people = each["synthetic"], max(each["train"], each["test"]), each["people"]
        if made - real > MOST_BROKEN and beyond_chance(made, people["synthetic"], each["train"], people["train"]):
            yield made - real, f"people with {each['column']} = {each['value']} have a later visit", made, real


def _far_dates(columns: Sequence[Entry]) -> Iterator[Off]:
    """The dates of which too many or too few lie in a part of the week or of the day, beyond held-out ones and chance."""
    for each in columns:
        beyond = each["tvd"] - each["real"]
        if beyond >= BY_CALENDAR and each["part"]:
            made, real = each["shares"]
            yield beyond, f"dates in {each['column']} fall {each['part']}", made, real


def _worst_numbers(columns: Sequence[Entry]) -> Finding | None:
    """The code whose numbers lie farthest off, with their quantiles (`numbers_by_code`)."""
    from synthdp.evaluate.numbers_by_code import said  # loads pandas

    far = [(column, code) for column in columns for code in column["codes"] if far_off(code)]
    if not far:
        return None
    column, code = max(far, key=lambda pair: _excess(pair[1]))
    made, real = (" / ".join(said(column, code, which)) for which in ("synthetic", "train"))
    return Finding(
        "numbers", f"{column['column']} of {column['by']} = {code['code']}", made, real, len(far), fault=True
    )


def _outside(columns: Sequence[Entry]) -> Finding | None:
    """The code of which most numbers lie where no real one does, if they are clearly more than of held-out records."""
    found = []
    for column in columns:
        for code in column["codes"]:
            made, real = ((code.get("outside") or {}).get(name) for name in ("synthetic", "test"))
            numbers = code["rows"]["train"] * (1 - (code["missing"]["train"] or 0.0))
            if _leaves(made, real, numbers):
                found.append(Finding("outside", f"{column['column']} of {column['by']} = {code['code']}", made, real))
    return max(found, key=lambda each: each.beyond)._replace(many=len(found)) if found else None


def _leaves(made: float | None, real: float | None, numbers: float) -> bool:
    """Whether so large a share of synthetic values lies outside the range of so many real ones, beyond that of held-out ones and chance."""
    return made is not None and real is not None and made - max(real, AT_ENDS / numbers) > MOST_BROKEN


def _beyond(columns: Mapping[str, Entry]) -> Finding | None:
    """The same of a column; results of earlier versions do not tell the share of held-out values."""
    found = [
        Finding("beyond", f"values of {name}", each["beyond"], each["held_out"])
        for name, each in columns.items()
        if "known" in each and _leaves(each["beyond"], each["held_out"], each["known"])
    ]
    return max(found, key=lambda each: each.beyond)._replace(many=len(found)) if found else None


def _shift(columns: Mapping[str, Entry]) -> Finding | None:
    """The column whose mean or tail is farthest off beyond chance (`association.shift`), with what it is among synthetic and real rows."""
    from synthdp.evaluate.fidelity import clock, plain

    found = {name: each["shift"] for name, each in columns.items() if each.get("shift")}
    if not found:
        return None
    name = max(found, key=lambda each: found[each]["distance"])
    worst, form = found[name], columns[name].get("time")
    made, real = (plain(worst[role]) if form is None else clock(worst[role], form) for role in ("synthetic", "train"))
    if form is None and columns[name]["real"][0] >= 0 and worst["train"] > 0:  # of a quantity from 0 on
        made += f" ({100 * (worst['synthetic'] / worst['train'] - 1):+.0f} %)"
    of = "mean" if worst["of"] == "mean" else f"{100 * worst['of']:.0f} % quantile"
    return Finding("shift", f"the {of} of {name}", made, real, len(found))


def far_off(code: Entry) -> bool:
    """Whether the numbers of a code lie so far from the real ones that they are named."""
    return _excess(code) > OFF


def _excess(code: Entry) -> float:
    return 0.0 if code["distance"] is None else float(code["distance"] - (code["real"] or 0))


# ---- Subgroups: who loses most when models are trained on synthetic rows.


class Loss(NamedTuple):
    """The entries of a column and of one of its levels, among the subgroups of a target."""

    target: str
    column: str
    group: Entry
    level: Entry


def losses(targets: Mapping[str, Entry]) -> list[Loss]:
    """All levels that were judged."""
    return [
        Loss(target, column, group, level)
        for target, entry in targets.items()
        for column, group in entry.get("subgroups", {}).items()
        for level in group["levels"]
        if "reason" not in level
    ]


def worst_group(targets: Mapping[str, Entry]) -> Loss | None:
    """The largest gap as a part of the score by real rows (targets have different units), among the worst levels of all tables."""
    worst = [
        each
        for each in losses(targets)
        if each.group["worst"] is not None and each.group["worst"] == each.level["level"]
    ]
    return max(worst, key=lambda loss: loss.level["gap"] / max(abs(loss.level["trtr"]["mean"]), 1e-9), default=None)


def clear(level: Entry) -> bool:
    """Whether a level's gap is above 0 beyond its interval."""
    interval = level.get("gap_interval")
    return interval is not None and bool(interval[0] > 0)


def gap_of(level: Entry) -> dict[str, Any]:
    """A level's gap as a summary."""
    return {"mean": level["gap"], "interval": level.get("gap_interval")}


# ---- Attacks: could someone be found?


APPENDIX = ("closeness",)  # attacks that the page tells last: what they pass is no evidence


class Attacks(NamedTuple):
    """Those that count, those that found something, and those that found more than the guarantee allows, which refutes it: either
    these records were made without it, or it is broken. `shown`: the figure furthest beyond its baseline, after its attack."""

    tried: Sequence[Entry]
    concerns: Sequence[Entry]
    refuted: Sequence[Entry]
    shown: tuple[Entry, Entry] | None


def attacks(found: Sequence[Entry]) -> Attacks:
    concerns = [each for each in found if each["verdict"] == "concern"]
    computed = [each for each in found if each["verdict"] != "not computed"]
    tried = [each for each in computed if each["id"] not in APPENDIX or each in concerns]
    refuted = [(attack, figure) for attack in found for figure in attack["figures"] if above(figure)]
    pairs = [(attack, figure) for attack in concerns or tried for figure in attack["figures"]]
    shown = max(refuted or [pair for pair in pairs if decides(pair[1])] or pairs, key=_ahead, default=None)
    return Attacks(tried, concerns, [attack for attack, _ in refuted], shown)


def above(figure: Entry) -> bool:
    """Whether a figure contradicts its bound, that is, its whole interval lies above. False for a figure without an
    interval."""
    bound, interval = figure.get("bound"), figure.get("interval")
    return bound is not None and interval is not None and figure["better"] != "higher" and bool(interval[0] > bound)


def decides(figure: Entry) -> bool:
    """Whether a figure makes its attack a concern: its whole interval lies beyond the baseline, on the attacker's side."""
    baseline, interval = figure.get("baseline"), figure.get("interval")
    if baseline is None or interval is None:
        return False
    return bool(interval[1] < baseline if figure.get("better") == "higher" else interval[0] > baseline)


def _ahead(pair: tuple[Entry, Entry]) -> float:
    figure = pair[1]
    if figure.get("baseline") is None or (figure.get("better") == "higher" and not decides(figure)):
        return float("-inf")
    ahead = float(figure["value"] - figure["baseline"])
    return abs(ahead) if decides(figure) else ahead
