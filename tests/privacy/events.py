"""Short names for the plans that the accounting suites use."""

from synthdp.privacy.ledger import Choice, Entry, Gaussian, Laplace, Sampled, Threshold


def gaussian(noise, count=1, **neighbours):
    return (Entry(Gaussian(noise=noise, **neighbours), count),)


def laplace(noise, count=1, **neighbours):
    return (Entry(Laplace(noise=noise, **neighbours), count),)


def choice(epsilon, count=1):
    return (Entry(Choice(epsilon=epsilon), count),)


def threshold(noise, delta, count=1):
    return (Entry(Threshold(noise=noise, delta=delta, categories=2), count),)


def sampled(rate, noise, count=1, sampler="poisson", **neighbours):
    event = Sampled(rate=rate, queries=(Gaussian(noise=noise, **neighbours),), sampler=sampler, **neighbours)
    return (Entry(event, count),)
