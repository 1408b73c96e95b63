"""Events, numbers and settings in words, for readers who are not engineers."""

import inspect
import math
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from synthdp.ledger.events import (
    Capped,
    Choice,
    Event,
    Gaussian,
    Laplace,
    Revealed,
    Sampled,
    Selection,
    SmoothGaussian,
    Threshold,
    Vote,
    inner,
)

ACCOUNTANTS = {
    "pld": "privacy loss distributions, composed on a grid that never understates the loss (Koskela et al. 2020; "
    "Doroshenko et al. 2022)",
    "rdp": "Rényi differential privacy, the best of many orders (Mironov 2017; Mironov, Talwar & Zhang 2019)",
    "naive": "basic composition: the sums of the epsilons and of the deltas (Dwork et al. 2006)",
    "strong": "advanced composition (Dwork, Rothblum & Vadhan 2010; Kairouz, Oh & Viswanath 2015)",
    "moments": "the moments accountant (Abadi et al. 2016)",
    "analytic_moments": "fixed-size samples without replacement (Wang, Balle & Kasiviswanathan 2019)",
}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, kw_only=True)
class Told:
    """An event in words. `inner` are the questions asked inside it."""

    title: str
    sentence: str
    parameters: tuple[tuple[str, str], ...]
    inner: tuple["Told", ...] = ()


def tell(event: Event) -> Told:
    """The event in words; an event of another package is described by its own docstring."""
    title, sentence = _words(event)
    skipped = {"relation", "unit", "queries", "reason", "sampler", "law", "candidates"}
    values = ((field.name, getattr(event, field.name)) for field in fields(event) if field.name not in skipped)
    return Told(
        title=title,
        sentence=sentence,
        parameters=tuple((_PARAMETERS.get(name, name), number(value)) for name, value in values),
        inner=_inner(event),
    )


def _inner(event: Event) -> tuple[Told, ...]:
    """What is asked inside an event; of candidates, each different question once."""
    if isinstance(event, Sampled):
        return tuple(tell(query) for query in event.queries)
    if isinstance(event, Selection):
        return tuple(dict.fromkeys(tell(entry.event) for plan in event.candidates for entry in plan))
    return ()


_PARAMETERS = {
    "noise": "noise multiplier",
    "rate": "rate",
    "categories": "categories that one unit can touch",
    "bound": "allowance",
    "mean": "fits on average",
    "shape": "shape of the number of fits",
    "order": "Rényi order",
    "filter": "counted in",
}
_CAPS = {
    "gaussian": "It costs no more than one Gaussian answer that a unit can move by the allowance times the standard deviation "
    "of the noise.",
    "zcdp": "It is counted in zero-concentrated differential privacy (rho).",
    "renyi": "It is counted as a Rényi divergence of the order given here.",
}


def _words(event: Event) -> tuple[str, str]:
    two = " Replacing one unit by another changes two contributions." if event.relation == "replace_one" else ""
    match event:
        case Gaussian():
            return "A sum with Gaussian noise", (
                "Each unit contributes a list of numbers whose length (L2 norm) is limited by a bound. Gaussian noise is added to "
                f"every number of the sum; its standard deviation is the noise multiplier times that bound.{two}"
            )
        case Laplace():
            return "A sum with Laplace noise", (
                "Each unit contributes a list of numbers whose total size (L1 norm) is limited by a bound. Laplace noise is added to "
                f"every number of the sum; its scale is the noise multiplier times that bound.{two}"
            )
        case Choice():
            return "A noisy choice", (
                "One of several public candidates is drawn, each with a probability in proportion to exp(epsilon × score / (2 × "
                "sensitivity)) (the exponential mechanism). The scores stay hidden."
            )
        case Threshold():
            return "A list of categories", (
                "The categories that occur were counted with noise; only those above a threshold are named. The threshold is so high "
                "that a category that only one unit has is named with at most the probability delta given here."
            )
        case Vote():
            kind = "The standard deviation" if event.law == "gaussian" else "The scale"
            two = " Replacing one unit by another may change two parts." if two else ""
            return "A noisy vote of separate parts", (
                "The units were dealt to separate parts, each unit to one part only. Every part answered for itself, through a "
                "model trained on it or by comparing its records with generated ones, and the answers were added up. "
                f"{event.law.capitalize()} noise is added to the sum. {kind} of the noise is the noise multiplier times the most by "
                f"which one part can change the sum.{two}"
            )
        case SmoothGaussian():
            return "A noisy figure of what the answers cost", (
                "A number that depends on the answers of the models, with Gaussian noise. The noise is scaled to how much one unit "
                "could change that number for records like these; beta bounds how much this scale itself may change, which is counted "
                "too."
            )
        case Sampled():
            how = (
                "each unit is in the sample with the probability “rate”, independently of all others, and the sample is drawn anew "
                "every time (Poisson sampling). Nobody knows who was in the sample, which protects further."
            )
            if event.sampler != "poisson":
                how = f"drawn by the sampler “{event.sampler}” with the probability “rate”."
            return "Questions to a random sample", f"Asked of a random sample of the units only: {how}"
        case Capped():
            return "Questions chosen one after another", (
                "Which question came next, and how noisy it was, was decided after seeing the earlier answers. What they may cost "
                "together was fixed beforehand; a question that would have exceeded that was refused. The whole allowance is counted, "
                f"used or not. {_CAPS.get(event.filter, '')}"
            )
        case Selection():
            return "The best of several fits", (
                f"A fit was repeated a random number of times, each time with settings drawn from {number(len(event.candidates))} "
                "candidates, and the fit with the best noisy score was kept. The number of fits and all other fits stay hidden; the "
                "choice is charged (Papernot & Steinke 2022). Each fit may ask the questions below."
            )
        case Revealed():
            return "The records themselves", (
                "The records were handed out without noise. No finite epsilon holds for anything that was made from them."
            )
        case _:
            first = (inspect.getdoc(type(event)) or "").split("\n\n")[0]
            return type(event).__name__, " ".join(first.split())


def sampler(events: tuple[Event, ...]) -> str:
    """How units were drawn, over all events."""
    asked = (each for event in events for each in (inner(event) if isinstance(event, Selection) else (event,)))
    kinds = {event.sampler if isinstance(event, Sampled) else "" for event in asked}
    named = {"": "no sampling", "poisson": "Poisson sampling (each unit independently of all others)"}
    return "; ".join(named.get(kind, kind) for kind in sorted(kinds)) or "nothing was asked"


def upper(value: float, digits: int = 4) -> str:
    """A bound rounded up to this many significant digits, so that the page never promises more than holds."""
    if math.isinf(value):
        return "∞"
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return number(float(rounded))


def percent(value: float) -> str:
    """A probability rounded up to a tenth of a percent."""
    tenths = (Decimal(repr(value)) * 1000).quantize(Decimal(1), rounding=ROUND_CEILING)
    return f"{tenths / 10:.1f} %"


def at_least(value: float) -> str:
    """A probability rounded down to a tenth of a percent."""
    tenths = (Decimal(repr(value)) * 1000).quantize(Decimal(1), rounding=ROUND_FLOOR)
    return f"{tenths / 10:.1f} %"


def number(value: Any) -> str:
    """A setting or parameter as text; numbers have at most six significant digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, int):
        return grouped(value)
    if isinstance(value, float):
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        if value.is_integer() and abs(value) < 1e15:
            return grouped(int(value))
        return scientific(value) if 0 < abs(value) < 1e-3 or abs(value) >= 1e15 else f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(number(item) for item in value) or "none"
    return str(value)


def grouped(value: int) -> str:
    """A whole number with thousands separated from five digits on: 10,391 but 1999."""
    return f"{value:,}" if abs(value) >= 10_000 else str(value)


def scientific(value: float, plain_from: float = 1e-3) -> str:
    """Small numbers as powers of ten: 10⁻⁶, 2.5 × 10⁻⁷."""
    if plain_from <= abs(value) < 1e15 or value == 0:
        return f"{value:.6g}"
    mantissa, power = f"{value:.5e}".split("e")
    exponent = "10" + str(int(power)).translate(_SUPERSCRIPTS)
    mantissa = mantissa.rstrip("0").rstrip(".")
    return exponent if mantissa == "1" else f"{mantissa} × {exponent}"


def one_in(probability: float) -> str:
    """A probability as 1 in so many, rounded up: 1 in 1,000,000. Above 1 in 10, where this is too coarse, in percent."""
    return percent(probability) if probability > 0.1 else f"1 in {int(1 / Decimal(repr(probability))):,}"


def plain(value: Any) -> str:
    """A declared value as the schema has it: no thousands, no rounding; a whole float loses its point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
