"""`synthdp epsilon votes=FILE`: what the answers of teachers cost, whatever they voted, and for the votes that they cast."""

import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np

from synthdp import accounting
from synthdp.accounting import pate
from synthdp.cli import settings
from synthdp.errors import BadInput
from synthdp.generators.parts.setting_checks import changed
from synthdp.ledger.events import Entry, Plan, Vote
from synthdp.report.statement import plain

VOTES = ("votes", "aggregator", "gamma", "sigma", "threshold", "sigma1", "sigma2", "queries", "answers", "orders")
ELSE = tuple(each.name for each in fields(settings.EpsilonOf) if each.name not in (*VOTES, "delta", "format"))
NEEDS = {"lnmax": ("gamma",), "gnmax": ("sigma",), "confident": ("threshold", "sigma1", "sigma2")}
MAY = {"confident": ("answers",)}
WARNING = "INTERNAL, not for release: it is computed from the votes, so it is private itself"


def epsilon(options: settings.EpsilonOf) -> None:
    """Print both figures side by side, and what a statement says of these queries; raises `BadInput` for impossible options."""
    _check(options)
    votes = _rows(options)
    independent, dependent, events = _analysed(options, votes)
    accountant, booked = accounting.best(events, options.delta)
    if options.format == "json":
        answer = {
            "aggregator": options.aggregator,
            "queries": len(votes),
            "delta": options.delta,
            "data_independent": {"epsilon": independent.epsilon, "order": independent.order},
            "statement": {"epsilon": booked, "accountant": accountant},
            "data_dependent": {
                "epsilon": dependent.epsilon,
                "order": dependent.order,
                "answered": dependent.answered,
                "internal": True,
                "warning": WARNING,
            },
        }
        print(json.dumps(plain(answer)))
        return
    at = f"at delta {options.delta:g}"
    answered = f", {dependent.answered:.1f} answers expected" if options.aggregator == "confident" else ""
    rows = (
        ("data-independent", independent.epsilon, f"{at}  for any votes (order {independent.order:g})"),
        ("statement", booked, f"{at}  for a ledger of these {len(votes)} queries ({accountant})"),
        ("data-dependent", dependent.epsilon, f"{at}  {WARNING} (order {dependent.order:g}{answered})"),
    )
    numbers = [f"{epsilon:.6g}" for _, epsilon, _ in rows]
    for (name, _, words), number in zip(rows, numbers, strict=True):
        print(f"{name:<16}  epsilon {number:<{max(map(len, numbers))}}  {words}")


def _check(options: settings.EpsilonOf) -> None:
    given = changed(options, VOTES[1:])
    if options.votes is None:
        raise BadInput(f"{given[0]}= needs votes=FILE: give the file, or leave the option out")
    others = changed(options, ELSE)
    if others:
        raise BadInput(f"epsilon takes votes=FILE or {others[0]}=..., not both")
    if options.aggregator is None:
        raise BadInput("votes=FILE needs aggregator=lnmax, gnmax or confident")
    needs = NEEDS[options.aggregator]
    for name in needs:
        if getattr(options, name) is None:
            raise BadInput(f"aggregator={options.aggregator} needs {name}=...")
    for name in given:
        if name not in (*needs, *MAY.get(options.aggregator, ()), "aggregator", "queries", "orders"):
            raise BadInput(f"aggregator={options.aggregator} has no option {name}=: leave it out")


def _rows(options: settings.EpsilonOf) -> np.ndarray:
    votes = pate.load(Path(str(options.votes)))
    if not len(votes):
        raise BadInput(f"{options.votes} has no row of votes")
    if options.queries is None:
        return votes
    if not 1 <= options.queries <= len(votes):
        raise BadInput(f"queries must be from 1 to {len(votes)}, the rows of {options.votes}; got {options.queries}")
    return votes[: options.queries]


def _analysed(options: settings.EpsilonOf, votes: np.ndarray) -> tuple[pate.DataIndependent, pate.DataDependent, Plan]:
    """What the answers cost for any votes and for these, and the events that a ledger holds of them."""
    delta, queries = options.delta, len(votes)
    laplace = options.aggregator == "lnmax"
    rule = pate.lnmax if laplace else pate.gnmax
    orders = rule.ORDERS if options.orders is None else options.orders
    if options.aggregator != "confident":
        scale = float((options.gamma if laplace else options.sigma) or 0)
        independent = rule.independent(scale, queries, delta, orders)
        dependent = rule.dependent(votes, scale, delta, orders)
        vote = Vote(noise=1 / (2 * scale), law="laplace") if laplace else Vote(noise=scale / math.sqrt(2))
        return independent, dependent, (Entry(vote, queries),)
    threshold, sigma1, sigma2 = (float(each or 0) for each in (options.threshold, options.sigma1, options.sigma2))
    answers = queries if options.answers is None else options.answers
    if not 0 <= answers <= queries:
        raise BadInput(f"answers must be from 0 to {queries}, the number of queries; got {answers}")
    independent = pate.confident.independent(sigma1, sigma2, queries, answers, delta, orders)
    dependent = pate.confident.expected(votes, threshold, sigma1, sigma2, delta, orders)
    events = (Entry(Vote(noise=sigma1), queries), Entry(Vote(noise=sigma2 / math.sqrt(2)), answers))
    return independent, dependent, events
