"""Could someone be found? What the attacks say, in the light of the guarantee: the second half of the first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.evaluate.figures import said, small

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUESTION = "Can I share it?"
PAGE = "This page must not be shared: it holds exact statistics of real records."


def found(result: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to "Can I share it?", in the form of `words.asks`. An attack at chance is a pass; one above its bound
    would refute the guarantee, which is then not what these records were made with, or broken."""
    attacks = result.get("attacks")
    answer: dict[str, Any] = {"question": "Could someone be found?", "figures": []}
    if not attacks:
        told = {"verdict": "Not tested", "text": "No attack was run. " + _promise(result)}
        return _ask("Only the guarantee can tell", False, {**answer, **told})
    refuted = [(a, f) for a in attacks for f in a["figures"] if above(f)]
    concerns = [a for a in attacks if a["verdict"] == "concern"]
    tried = [a for a in attacks if a["verdict"] != "not computed"]
    shown = _strongest([*(a for a, _ in refuted), *concerns, *tried])
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
        verdict = "The attacks found no reason not to"
    return _ask(verdict, bool(refuted or concerns), {**answer, "text": text + _promise(result)})


def above(item: Mapping[str, Any]) -> bool:
    """Whether a figure contradicts its bound: even the low end of its interval is above. Without an interval nothing
    can be said."""
    bound, interval = item.get("bound"), item.get("interval")
    return bound is not None and interval is not None and item["better"] != "higher" and bool(interval[0] > bound)


def _ask(verdict: str, bad: bool, answer: Mapping[str, Any]) -> dict[str, Any]:
    page = {"question": "And this page?", "verdict": "Never", "figures": [], "text": PAGE}
    return {"question": QUESTION, "verdict": verdict, "bad": bad, "answers": [answer, page]}


def _promise(result: Mapping[str, Any]) -> str:
    claim = result["about"].get("claim")
    if claim is None:
        return (
            "Attacks that fail prove nothing. Whether the records may leave depends on the statement of their release."
        )
    return (
        f"Attacks that fail prove nothing, but the guarantee does (epsilon {small(claim['epsilon'])}, delta "
        f"{small(claim['delta'])}, per {claim['unit']}): its bound holds for every attacker. Decide by the statement "
        "of the release."
    )


def _strongest(attacks: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """The figure to show: of the first kind of attack given (refuted, concern, tried) the furthest above baseline."""
    if not attacks:
        return None
    first = attacks[0]["verdict"]
    pool = [(a, f) for a in attacks if a["verdict"] == first for f in a["figures"]]
    return max(pool, key=lambda found: _excess(found[1]), default=None)


def _excess(item: Mapping[str, Any]) -> float:
    if item.get("baseline") is None or item.get("better") == "higher":
        return float("-inf")
    return float(item["value"] - item["baseline"])


def _figures(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    own = {"label": "attack", "value": item["value"]}
    if item.get("interval") is not None:
        own["interval"] = item["interval"]
    rest = [{"label": key, "value": item[key]} for key in ("baseline", "bound") if item.get(key) is not None]
    return [own, *rest]


def _told(attack: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    """The strongest attack in a sentence."""
    text = f"The strongest attack, measured against its baseline: {attack['title']}, {item['label']} {said(item)}"
    if item.get("baseline") is not None:
        text += f"; its baseline is {said(item['baseline'])}"
    if item.get("bound") is not None:
        text += f"; the guarantee allows at most {said(item['bound'])}"
    return text + "."
