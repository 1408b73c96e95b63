"""How papers computed the figures that they print, where that is not how synthdp's accountants do."""

import math

import numpy as np

from synthdp.accounting import Charges
from synthdp.accounting.accountants import moments


def integer_epsilon(charges: Charges, delta: float) -> float:
    """The moments accountant at integer orders only, up to 32: what Abadi et al. 2016 computed (section 3.2). Never below
    `moments.epsilon`, which searches real orders too."""
    orders = np.arange(1.0, 33.0)
    whole = sum((entry.count * moments.rule(entry.event)(orders) for entry in charges.entries), np.zeros(32))
    return max(0.0, float(np.min((whole - math.log(delta)) / orders)))


def as_published(each: float, count: int, slack: float) -> float:
    """epsilon sqrt(2 k log(1 / delta)) + k epsilon^2: what papers print as strong composition of k epsilon-DP events.

    100 events of 0.1, delta 1e-5: 5.7985 (Papernot et al. 2017 print 5.80). The last term stands for k epsilon (e^epsilon - 1)
    of Dwork, Rothblum & Vadhan 2010. It is valid, since epsilon tanh(epsilon / 2) <= epsilon^2 / 2, and `strong.epsilon` is less.
    """
    return each * math.sqrt(2 * count * -math.log(slack)) + count * each * each


def abadi_figure(rate: float, noise: float, steps: int, delta: float) -> float:
    """The curve "strong composition" of Abadi et al. 2016, figure 2: 9.34 at rate 0.01, noise 4, 10^4 steps, delta 1e-5.

    NOT a valid accountant, and not what `strong.epsilon` returns. The paper does not print its formula; this reading gives its figure
    (9.339): half of delta composes, the other half is spread over the steps; sqrt(2 log(1.25 / delta)) / noise for one Gaussian
    (Dwork & Roth 2014, appendix A, proven below epsilon 1 only: here it is 1.46); a sample multiplies epsilon and delta by the
    rate (true to first order only: the lemma's log(1 + rate (e^epsilon - 1)) is twice as much here); then `as_published`.
    """
    own = delta / 2 / (rate * steps)
    return as_published(rate * math.sqrt(2 * math.log(1.25 / own)) / noise, steps, delta / 2)
