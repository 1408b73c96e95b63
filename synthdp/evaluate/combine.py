"""Valid inference from m synthetic data sets of one release: the combining rules, and when each of them holds.

A synthetic set analysed as if it were real tells of the model, with error bars of the synthetic rows: too narrow for the
population, under differential privacy above all, since the noise of the release is in no row.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synthdp.errors import BadInput

Values = NDArray[np.float64]
Sets = Literal["posterior", "one_model"]
SUSPECT = 0.05  # sets that differ no more than rows of one model would, at this level, are told so


@dataclass(frozen=True, kw_only=True)
class Combined:
    """An estimate of a population's number, or of several, from m synthetic sets. Arrays are (), or (numbers,)."""

    estimate: Values
    variance: Values
    degrees_of_freedom: Values  # of Student's t; inf: normal
    between: Values  # b: the variance of the estimates
    within: Values  # ubar: the mean of their own variances
    sets: Sets
    m: int

    @property
    def standard_error(self) -> Values:
        """The square root of the variance."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[Values, Values]:
        """(low, high) that covers the population's number with probability `level`, each number on its own."""
        from scipy.stats import t

        if not 0 < level < 1:
            raise BadInput(f"level of an interval must lie strictly between 0 and 1, got {level}")
        reach = t.ppf((1 + level) / 2, self.degrees_of_freedom) * self.standard_error
        return self.estimate - reach, self.estimate + reach


def combine(
    estimates: ArrayLike,
    variances: ArrayLike,
    *,
    sets: Sets = "posterior",
    synthetic_rows: int | None = None,
    rows: int | None = None,
    noise_variance: ArrayLike | None = None,
) -> Combined:
    """One estimate of the population from the analyses of m synthetic sets.

    `estimates` (m,) or (m, numbers): q_i, what the analysis of set i says; `variances`, of the same shape: u_i, the squared
    standard errors that it gives when the set is taken for real rows. With qbar and ubar their means and b the variance of
    the q_i (divisor m - 1), `sets` says how the sets were made, and so which rule holds:

    - "posterior": each set from **parameters of its own**, drawn from their posterior given what was released. Then
      T = (1 + 1/m) b - ubar with (m - 1) (1 - ubar / ((1 + 1/m) b))^2 degrees of freedom (Raghunathan, Reiter & Rubin 2003).
      Under differential privacy it holds in the same form if the posterior knows the noise: that of the parameters given the
      noisy answers (Raisa, Jalko, Kaski & Honkela 2023). Assumed are a model that holds, estimates that are about normal, and
      sets of rows that are independent given their parameters. T can come out negative, rarely so if the sets are several
      times larger than the data and m is 10 or more; with `synthetic_rows` (in each set) and `rows` (of the real data, a
      public count) it is then replaced by ubar synthetic_rows / rows, with infinite degrees of freedom (Reiter 2002), which
      leaves out the noise of the release and so may be too narrow; without them it is refused.
    - "one_model": ordinary samples of one fitted model, **which is what `Release.sample` gives**. The sets then differ only by
      the rows that were drawn: b is about ubar, the rule above would give about ubar / m, and no number of samples tells how
      far the model itself is from the population. T = ubar (synthetic_rows / rows + 1 / m) + noise_variance, with infinite
      degrees of freedom (Raab, Nowok & Dibben 2016, for an efficient fit of a model that holds), where `noise_variance` is
      what the release's noise adds to the variance of the model's number: known for noisy counts and sums, of a network as a
      rule not. All three must be given; 0 for the noise says that there was none. Where it is unknown there is no valid
      rule: report qbar as what the model says, without an interval for the population.

    Sets given as "posterior" that look like samples of one model are named in a warning. Raises `BadInput` for fewer than two
    sets, numbers that are not finite, variances that are not positive, and where no rule holds.

    >>> answer = combine([4.9, 5.2, 5.4, 4.6, 5.1], [0.01, 0.012, 0.011, 0.009, 0.01])
    >>> print(f"{answer.estimate:.2f} +- {answer.standard_error:.2f}, t with {answer.degrees_of_freedom:.1f} df")
    5.04 +- 0.32, t with 3.3 df
    >>> low, high = answer.interval(0.95)
    >>> print(f"{low:.2f} to {high:.2f}")
    4.08 to 6.00
    """
    q, u = _checked(estimates, variances)
    m = len(q)
    qbar, ubar, b = q.mean(axis=0), u.mean(axis=0), q.var(axis=0, ddof=1)
    if sets not in get_args(Sets):
        raise BadInput(f"sets must be one of {', '.join(get_args(Sets))}, got {sets!r}")
    ratio = _ratio(synthetic_rows, rows)
    if sets == "one_model":
        total, freedom = _of_one_model(ubar, m, ratio, noise_variance)
    else:
        if noise_variance is not None:
            raise BadInput(
                "noise_variance belongs to sets='one_model': a posterior that knows the noise includes it already"
            )
        _warn_of_one_model(b, ubar, m)
        total, freedom = _of_posterior(b, ubar, m, ratio)
    return Combined(
        estimate=np.asarray(qbar),
        variance=np.asarray(total),
        degrees_of_freedom=np.asarray(freedom),
        between=np.asarray(b),
        within=np.asarray(ubar),
        sets=sets,
        m=m,
    )


def _of_posterior(b: Values, ubar: Values, m: int, ratio: float | None) -> tuple[Values, Values]:
    """T and its degrees of freedom, T replaced where it is not positive."""
    whole = (1 + 1 / m) * b
    total = whole - ubar
    negative = total <= 0
    if negative.any() and ratio is None:
        raise BadInput(
            f"T = (1 + 1/m) b - ubar is not positive for {int(negative.sum())} of {negative.size} numbers: draw more sets, larger "
            "ones, or give rows= and synthetic_rows= for the variant that is never negative (Reiter 2002). If the sets are "
            "samples of one fitted model, give sets='one_model'"
        )
    share = np.where(negative, 1.0, total / np.where(negative, 1.0, whole))
    freedom = np.where(negative, np.inf, (m - 1) * share**2)
    return np.where(negative, ubar * (ratio or 0.0), total), freedom


def _of_one_model(ubar: Values, m: int, ratio: float | None, noise: ArrayLike | None) -> tuple[Values, Values]:
    if ratio is None or noise is None:
        raise BadInput(
            "samples of one fitted model do not show how uncertain the model is, so sets='one_model' needs rows=, synthetic_rows= "
            "and noise_variance= (the variance that the release's noise adds; 0 without noise). Where that is unknown, no valid "
            "interval for the population exists"
        )
    added = np.asarray(noise, float)
    if not (np.isfinite(added) & (added >= 0)).all() or added.shape not in ((), ubar.shape):
        raise BadInput("noise_variance must be 0 or more: one number, or one for each number that is estimated")
    return ubar * (ratio + 1 / m) + added, np.full(ubar.shape, np.inf)


def _warn_of_one_model(b: Values, ubar: Values, m: int) -> None:
    """Samples of one model have (m - 1) b / ubar about chi-squared; draws of a posterior more."""
    from scipy.stats import chi2

    alike = chi2.sf((m - 1) * b / ubar, m - 1) > SUSPECT
    if np.mean(alike) > 0.5:  # of most of the numbers
        warnings.warn(
            "the sets differ no more than samples of one fitted model do, such as those that Release.sample draws. If they come "
            "from one model, their spread leaves out the uncertainty of the model itself, and the interval is too narrow: use "
            "sets='one_model'",
            stacklevel=3,
        )


def _checked(estimates: ArrayLike, variances: ArrayLike) -> tuple[Values, Values]:
    q, u = (_numbers(name, given) for name, given in (("estimates", estimates), ("variances", variances)))
    if q.ndim not in (1, 2) or q.size == 0 or q.shape != u.shape:
        raise BadInput(
            f"estimates and variances must both be (m,) or (m, numbers), got the shapes {q.shape} and {u.shape}"
        )
    if len(q) < 2:
        raise BadInput("one synthetic set has no variance between sets: combine needs two or more")
    if not np.isfinite(q).all() or not np.isfinite(u).all() or not (u > 0).all():
        raise BadInput(
            "estimates must be finite and variances finite and positive; leave a set that failed out, and say so"
        )
    return q, u


def _numbers(name: str, given: Any) -> Values:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be numbers, the same number of them for every set") from error


def _ratio(synthetic_rows: int | None, rows: int | None) -> float | None:
    """Rows of a synthetic set over rows of the real data."""
    if (synthetic_rows is None) != (rows is None):
        raise BadInput("give rows= and synthetic_rows= both, or neither")
    if synthetic_rows is None or rows is None:
        return None
    if not (synthetic_rows > 0 and rows > 0):
        raise BadInput(f"rows and synthetic_rows must be greater than 0, got {rows} and {synthetic_rows}")
    return synthetic_rows / rows
