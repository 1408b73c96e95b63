"""Commands that compute with events alone: no record is read."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from synthdp import accounting
from synthdp.cli import settings, vote_costs
from synthdp.errors import BadInput
from synthdp.generators.parts.setting_checks import changed
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Gaussian, Plan, Sampled, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.report import plots
from synthdp.report.plots import FORMATS
from synthdp.report.statement import plain

Config = Mapping[str, Any]
Lines = Mapping[str, Sequence[tuple[int, float]]]  # accountant -> (steps or order, epsilon)
FAR = 100  # times the least epsilon: orders that give more are not printed
POINTS = 24  # numbers of steps at which a plot computes epsilon

SHUFFLE = (
    "no accountant has a proof for sampler=shuffle: batches of a shuffled epoch protect less than Poisson samples (noise 0.5, "
    "10^4 steps, delta 1e-6: epsilon is at least 10.99, where Poisson's formula prints 1.95; Chua et al. 2024). Draw batches by "
    "Poisson sampling, or draw fixed-size batches without replacement (sampler=without_replacement relation=replace_one)"
)


def epsilon(config: Config) -> None:
    """Epsilon of a mechanism, or of a ledger, by every accountant that has a proof; or of teachers' votes."""
    options: settings.EpsilonOf = config["options"]
    if changed(options, vote_costs.VOTES):
        vote_costs.epsilon(options)
        return
    plot = None if options.plot is None else _plot_file(options)
    if options.by_order and options.group > 1:
        raise BadInput(f"by_order=true accounts for one unit only: leave group={options.group} out")
    entries = _asked(options)
    names = _chosen(options.accountant, accounting.ACCOUNTANTS)
    values, refused = accounting.answers(entries, options.delta, options.group, names)
    if not values:
        raise BadInput("; ".join(refused.values()))
    orders = accounting.by_order(entries, options.delta) if options.by_order else {}
    if plot is not None:
        _draw(plot, options, orders or _by_steps(options, tuple(values)))
    if options.format == "json":
        answer: dict[str, Any] = {"epsilon": values, "delta": options.delta}
        answer |= {"group": options.group} if options.group > 1 else {}
        if options.by_order:
            answer["by_order"] = {
                name: [{"order": order, "epsilon": value} for order, value in points] for name, points in orders.items()
            }
        print(json.dumps(plain(answer)))
    else:
        _print(options, values, refused)
        _print_orders(orders)


def calibrate(config: Config) -> None:
    """The least noise, the largest rate or the most steps that keep a budget: whichever is not given."""
    options: settings.Calibrate = config["options"]
    budget = Budget(options.epsilon, options.delta, options.relation)
    earlier = _earlier(options)
    unit = earlier[0].event.unit if earlier else "record"
    what = _missing(options)
    rate, steps = 1.0 if options.rate is None else options.rate, 1 if options.steps is None else options.steps

    def plan(value: float) -> Plan:
        each = {"noise": options.noise, "rate": rate, "steps": steps, what: value}
        event = _event(float(each["rate"] or 0), float(each["noise"] or 0), options.relation)
        return scoped((Entry(event, int(each["steps"] or 0)),), relation=options.relation, unit=unit)

    solve: dict[str, Callable[..., float]] = {
        "noise": accounting.calibrate,
        "rate": accounting.calibrate_rate,
        "steps": accounting.calibrate_steps,
    }
    value = solve[what](plan, budget, options.accountant, spent=earlier)
    if value == 0 and what == "steps":
        raise BadInput(
            f"a single step of noise {options.noise:g} at rate {rate:g} exceeds epsilon {options.epsilon:g}; give a larger noise"
        )
    epsilon = accounting.epsilon((*earlier, *plan(value)), options.delta, options.accountant)
    if options.format == "json":
        print(json.dumps(plain({what: value, "epsilon": epsilon, "accountant": options.accountant})))
    else:
        together = f", together with {options.ledger}" if earlier else ""
        print(
            f"{what} {value:.6g} gives epsilon {epsilon:.6g} at delta {options.delta:g} ({options.accountant}){together}"
        )


def _missing(options: settings.Calibrate) -> str:
    """What is to be solved for."""
    if options.noise is None:
        return "noise"
    if (options.rate is None) == (options.steps is None):
        raise BadInput(
            "calibrate solves for one number: leave noise= out, or give noise= and exactly one of steps= and rate=, and it finds "
            "the other (rate=1 means no sampling)"
        )
    return "rate" if options.rate is None else "steps"


def _earlier(options: settings.Calibrate) -> Plan:
    if options.ledger is None:
        return ()
    earlier = _booked(Path(options.ledger))
    for relation in {entry.event.relation for entry in earlier} - {options.relation}:
        raise BadInput(f"the ledger's events are under {relation}: give relation={relation}")
    return earlier


def _asked(options: settings.EpsilonOf) -> Plan:
    if options.ledger is not None:
        both = changed(options, ("noise", "rate", "steps", "sampler", "relation"))
        if both:
            raise BadInput(f"epsilon takes ledger=FILE or {both[0]}=..., not both: the ledger's events have their own")
        return _booked(Path(options.ledger))
    if options.noise is None:
        raise BadInput("epsilon needs noise=... (with rate= and steps=), ledger=FILE, or votes=FILE with aggregator=")
    if options.sampler == "shuffle" and options.rate < 1:
        raise BadInput(SHUFFLE)
    if (options.sampler, options.relation) == ("without_replacement", "add_remove"):
        raise BadInput(
            "sampler=without_replacement needs relation=replace_one: adding a unit changes the size of the population that is sampled"
        )
    return _plan(options, options.steps)


def _booked(path: Path) -> Plan:
    """What a ledger charges. Warns where an account or a release says that it was more."""
    from synthdp.cli import budgets

    ledger = Ledger.read(path)
    reason = budgets.lacking(path, ledger)
    if reason is not None:
        warnings.warn(
            f"{path} is not complete, so the true epsilon is larger than its lines give: {reason}", stacklevel=2
        )
    return ledger.entries()


def _plan(options: settings.EpsilonOf, steps: int) -> Plan:
    return (Entry(_event(options.rate, options.noise or 0.0, options.relation, options.sampler), steps),)


def _event(rate: float, noise: float, relation: Any, sampler: str = "poisson") -> Event:
    if not noise >= 0:
        raise BadInput(f"noise must be 0 or more, got {noise}")
    inner = Gaussian(noise, relation=relation)
    return inner if rate == 1 else Sampled(rate, (inner,), sampler=sampler, relation=relation)


def _chosen(asked: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    if asked == ("all",):
        return known
    for name in asked or ("",):
        if name not in known:
            raise BadInput(f"accountant must be all, or one or more of {', '.join(known)}; got {name!r}")
    return asked


def _plot_file(options: settings.EpsilonOf) -> Path:
    path = Path(str(options.plot))
    if options.ledger is not None:
        raise BadInput(
            "plot=FILE draws epsilon against steps: it needs noise=... (with rate= and steps=), not a ledger"
        )
    if options.steps < 1:
        raise BadInput(f"plot=FILE needs steps=1 or more, got {options.steps}")
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"plot={path} must end in {', '.join(FORMATS)}")
    if path.is_dir() or (path.exists() and not options.force):
        raise BadInput(f"plot={path} exists; choose another file or pass force=true")
    return path


def _by_steps(options: settings.EpsilonOf, names: tuple[str, ...]) -> Lines:
    # Closer together at the beginning, where epsilon bends.
    counts = sorted({max(1, round(options.steps * (part / POINTS) ** 2)) for part in range(1, POINTS + 1)})
    return {
        name: [
            (steps, accounting.group_epsilon(_plan(options, steps), options.delta, options.group, name))
            for steps in counts
        ]
        for name in names
    }


def _draw(path: Path, options: settings.EpsilonOf, lines: Lines) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    together = f", {options.group} units together" if options.group > 1 else ""
    plots.save_comparison(
        path,
        lines,
        f"noise {options.noise:g}, rate {options.rate:g}, delta {options.delta:g}, {options.relation}{together}",
        across="order" if options.by_order else "steps",
    )


def _print(options: settings.EpsilonOf, values: Mapping[str, float], refused: Mapping[str, str]) -> None:
    width = max(map(len, (*values, *refused)))
    group = f" for {options.group} units together" if options.group > 1 else ""
    numbers = {name: f"{value:.6g}" for name, value in values.items()}
    digits = max(map(len, numbers.values()))
    for name, number in numbers.items():
        print(f"{name:<{width}}  epsilon {number:<{digits}}  at delta {options.delta:g}{group}")
    for name, reason in refused.items():
        print(f"{name:<{width}}  no figure: {reason}")


def _print_orders(lines: Lines) -> None:
    for name, points in lines.items():
        order, least = min(points, key=lambda point: point[1])
        near = [(each, value) for each, value in points if value <= FAR * least]
        print(f"\n{name}, by order: least epsilon {least:.6g}, at order {order}")
        for start in range(0, len(near), 8):
            print("  ".join(f"{each:>3}: {value:<9.5g}" for each, value in near[start : start + 8]).rstrip())
        if len(near) < len(points):
            print(f"the other orders up to {points[-1][0]} give more than {FAR} times as much")
