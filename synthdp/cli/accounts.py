"""Commands that compute with events alone: no record is read."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthdp.cli import settings
from synthdp.errors import BadInput
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import Entry, Event, Gaussian, Ledger, Plan, Sampled

Config = Mapping[str, Any]


def account(config: Config) -> None:
    """Epsilon of a mechanism, or of a ledger, by every accountant that has a proof."""
    from synthdp.privacy import accounting

    options: settings.AccountOf = config["options"]
    _check_delta(options.delta)
    entries = _asked(options)
    if options.accountant == "all":
        values = accounting.epsilons(entries, options.delta)
        refused = accounting.refusals(entries)
        if not values:
            raise BadInput("; ".join(refused.values()))
    else:
        values, refused = {options.accountant: accounting.epsilon(entries, options.delta, options.accountant)}, {}
    if options.format == "json":
        print(json.dumps({"epsilon": {name: _plain(value) for name, value in values.items()}, "delta": options.delta}))
        return
    for name, value in values.items():
        print(f"{name:<8} epsilon {value:.6g} at delta {options.delta:g}")
    for name, reason in refused.items():
        print(f"{name:<8} no figure: {reason}")


def calibrate(config: Config) -> None:
    """The least noise that keeps a budget over steps of a sampled Gaussian."""
    from synthdp.privacy import accounting

    options: settings.Calibrate = config["options"]
    budget = Budget(options.epsilon, options.delta, options.relation)
    if options.steps < 1:
        raise BadInput(f"steps must be 1 or more, got {options.steps}")

    def plan(noise: float) -> Plan:
        return (Entry(_event(options.rate, noise, options.relation), options.steps),)

    noise = accounting.calibrate(plan, budget, options.accountant)
    epsilon = accounting.epsilon(plan(noise), options.delta, options.accountant)
    if options.format == "json":
        print(json.dumps({"noise": noise, "epsilon": _plain(epsilon), "accountant": options.accountant}))
    else:
        print(f"noise {noise:.6g} gives epsilon {epsilon:.6g} at delta {options.delta:g} ({options.accountant})")


def _asked(options: settings.AccountOf) -> Plan:
    if options.ledger is not None:
        if options.noise is not None:
            raise BadInput("account takes ledger=FILE or noise=..., not both")
        return Ledger.read(Path(options.ledger)).entries()
    if options.noise is None:
        raise BadInput("account needs noise=... (with rate= and steps=), or ledger=FILE")
    if options.steps < 0:
        raise BadInput(f"steps must be 0 or more, got {options.steps}")
    return (Entry(_event(options.rate, options.noise, options.relation), options.steps),)


def _event(rate: float, noise: float, relation: Any) -> Event:
    if not 0 <= rate <= 1:
        raise BadInput(f"rate must lie in [0, 1], got {rate}")
    if not noise >= 0:
        raise BadInput(f"noise must be 0 or more, got {noise}")
    inner = Gaussian(noise, relation=relation)
    return inner if rate == 1 else Sampled(rate, (inner,), relation=relation)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise BadInput(f"delta must lie strictly between 0 and 1, got {delta}")


def _plain(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
