"""Renyi divergence of Gaussian noise that is scaled to a smooth sensitivity, which neighbours do not share.

Between neighbours the value moves by at most the lesser of S and S', and S' / S lies within e^-beta and e^beta (Nissim,
Raskhodnikova & Smith 2007, definition 2.1). What is compared are N(0, 1) and N(t, r^2), in units of S noise: at order a, with
v = a r^2 + 1 - a > 0, the divergence is a t^2 / (2 v) + (a log r - 1/2 log v) / (a - 1) (Gil, Alajaji & Linder 2013, table 2).

Both terms are largest at r = e^-beta. The first has t at most r below r = 1 and at most 1 above: r^2 / v and 1 / v both fall in
r. The second is 0 at r = 1 and rises on either side, by more below: its slope in log r^2, but for a common factor, is
w / (1 - a w) at e^-c and w / (1 + (a - 1) w) at e^c, with w = 1 - e^-c. Where two units change (replace_one), r goes down to
e^(-2 beta) and the value moves by at most S + S': (1 + r)^2 / v falls as well.
"""

import numpy as np

Array = np.ndarray


def divergence(noise: float, beta: float, orders: Array, moves: int = 1) -> Array:
    """The divergence at each order (orders,); inf from order 1 / (1 - e^(-2 moves beta)) on. `moves`: 1 or 2 units change."""
    r = np.exp(-moves * beta)
    shift = r if moves == 1 else 1 + r
    v = 1 + orders * np.expm1(-2 * moves * beta)
    known = v > 0
    v = np.where(known, v, 1.0)
    by_value = orders * (shift / noise) ** 2 / (2 * v)
    by_scale = np.maximum(-orders * moves * beta - np.log(v) / 2, 0.0) / (orders - 1)
    found: Array = np.where(known, by_value + by_scale, np.inf)
    return found
