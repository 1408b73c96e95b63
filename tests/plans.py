"""Short names for the plans that the accounting suites use."""

import dataclasses
from dataclasses import dataclass

from synthdp.accounting.accountants import moments, naive, pld, rdp
from synthdp.ledger.events import Capped, Choice, Entry, Event, Gaussian, Laplace, Sampled, Threshold, Vote, scoped


@dataclass(frozen=True)
class Pure(Event):
    """Any mechanism that is epsilon-DP: a plug-in's event, with the rules of pure mechanisms."""

    epsilon: float


pld.rule.register(Pure, lambda event: pld.pure(event.epsilon))
pld.reach.register(Pure, lambda event: event.epsilon)
rdp.rule.register(Pure, lambda event: rdp.pure(event.epsilon))
naive.rule.register(Pure, lambda event: naive.rule(Choice(epsilon=event.epsilon)))
moments.rule.register(Pure, lambda event: moments.rule(Choice(epsilon=event.epsilon)))


def gaussian(noise, count=1, **neighbours):
    return (Entry(Gaussian(noise=noise, **neighbours), count),)


def laplace(noise, count=1, **neighbours):
    return (Entry(Laplace(noise=noise, **neighbours), count),)


def choice(epsilon, count=1):
    return (Entry(Choice(epsilon=epsilon), count),)


def threshold(noise, delta, count=1):
    return (Entry(Threshold(noise=noise, delta=delta, categories=2), count),)


def vote(noise, count=1, law="gaussian", **neighbours):
    return (Entry(Vote(noise=noise, law=law, **neighbours), count),)


def sampled(rate, noise, count=1, sampler="poisson", **neighbours):
    event = Sampled(rate=rate, queries=(Gaussian(noise=noise, **neighbours),), sampler=sampler, **neighbours)
    return (Entry(event, count),)


def capped(filter, bound, count=1, **more):
    return (Entry(Capped(filter=filter, bound=bound, **more), count),)


def without_replacement(rate, noise, count=1):
    """The one sampled event that `analytic_moments` has a proof for."""
    return sampled(rate, noise, count, sampler="without_replacement", relation="replace_one")


def replaced(entries):
    """The same events under replace_one, sampled ones without replacement."""
    found = scoped(entries, relation="replace_one", unit="record")
    return tuple(
        Entry(dataclasses.replace(entry.event, sampler="without_replacement"), entry.count)
        if isinstance(entry.event, Sampled)
        else entry
        for entry in found
    )


def known_to(accountant, entries):
    """The events in the form that the accountant has a proof for."""
    return replaced(entries) if accountant == "analytic_moments" else tuple(entries)
