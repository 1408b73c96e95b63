"""Published privacy figures beside ours, and the figure of Abadi et al. 2016 -> reports/accounting.{json,md,png}.

Deterministic: no data, no randomness. Each row names the accountant whose figure is compared.
"""

import json
from typing import Any

import record
from published_figures import abadi_figure, as_published, integer_epsilon

from synthdp import accounting
from synthdp.ledger.events import Entry, Event, Gaussian, Laplace, Plan, Sampled, Vote
from synthdp.report import plots

DELTA = 1e-5
ABADI = (0.01, 4.0)  # rate and noise of their figure 2
PYVACY = (256 / 60_000, 1.1, 14_063)  # rate, noise and steps of MNIST
SHOWN = 32  # the orders up to which the figure goes
EPOCHS = (1, 5, 10, 20, 40, 60, 80, 100, 150, 200, 300, 400)


def sgd(rate: float, noise: float, steps: int) -> Plan:
    """DP-SGD: Gaussian sums over Poisson samples."""
    return (Entry(Sampled(rate, (Gaussian(noise),)), steps),)


def fixed(rate: float, noise: float, steps: int) -> Plan:
    """DP-SGD with batches of fixed size, one record replaced."""
    query: Event = Gaussian(noise, relation="replace_one")
    return (Entry(Sampled(rate, (query,), sampler="without_replacement", relation="replace_one"), steps),)


def rows() -> list[dict[str, Any]]:
    """What was published, and what the accountants of this code say of the same mechanism."""
    abadi, pyvacy = sgd(*ABADI, 10_000), sgd(*PYVACY)
    integer = {name: integer_epsilon(accounting.charges(plan), DELTA) for name, plan in (("a", abadi), ("p", pyvacy))}
    return [
        row("one Gaussian, noise 1", "4.377178 (Balle & Wang 2018, exact)", (Entry(Gaussian(1.0)),), "pld"),
        row("Abadi et al. 2016, figure 2: 10,000 steps", "1.26", abadi, "moments", integers=integer["a"]),
        row(
            "the same by strong composition",
            "9.34 (not a valid bound, see below)",
            abadi,
            "strong",
            as_published=abadi_figure(*ABADI, 10_000, DELTA),
        ),
        row("Waites 2019 (PyVacy), MNIST, 60 epochs", "3.0", pyvacy, "moments", integers=integer["p"]),
        row("TensorFlow Privacy, test 0: 6,000 steps", "0.7242234", sgd(0.0025, 1.3, 6000), "rdp"),
        row("TensorFlow Privacy, 120 steps at noise 0.7", "RDP 3.2392676", sgd(0.01, 0.7, 120), "rdp"),
        row("the same by PLD", "PLD 2.4612381", sgd(0.01, 0.7, 120), "pld"),
        row("PRV accountant: rate 0.05, noise 0.8, 100 steps", "6.741051939", sgd(0.05, 0.8, 100), "pld", delta=1e-6),
        row(
            "100 Laplace votes of 0.1-DP (Papernot et al. 2017)",
            "5.80 (strong composition)",
            (Entry(Vote(10.0, "laplace"), 100),),
            "strong",
            as_published=as_published(0.1, 100, DELTA),
        ),
        row(
            "1,000 Laplace votes of 0.1-DP (the same paper, SVHN)",
            "about 26 (strong composition)",
            (Entry(Vote(10.0, "laplace"), 1000),),
            "strong",
            delta=1e-6,
            as_published=as_published(0.1, 1000, 1e-6),
        ),
        row("10 Laplace queries of scale 1", "9.989962 (dp-accounting)", (Entry(Laplace(1.0), 10),), "pld"),
        row("fixed batches of 64 in 10,000, 5,000 steps", "32.440170 (dp-accounting)", fixed(0.0064, 1.0, 5000), "analytic_moments"),
        row("3 records of one person, 782 steps", "6.425 (TensorFlow Privacy)", sgd(0.0064, 1.0, 782), "rdp", delta=1e-6, group=3),
        row("the same by a mixture of Gaussians", "3.936962 (dp-accounting)", sgd(0.0064, 1.0, 782), "pld", delta=1e-6, group=3),
        row("10 records of one person", "15.464347 (dp-accounting)", sgd(0.0064, 1.0, 782), "pld", delta=1e-6, group=10),
    ]  # fmt: skip


def row(
    what: str, published: str, plan: Plan, accountant: str, *, delta: float = DELTA, group: int = 1, **more: float
) -> dict[str, Any]:
    """One line: the compared figure, by the published way where that differs (`more`), and the best bound."""
    return {
        "what": what,
        "published": published,
        "delta": delta,
        "accountant": accountant,
        "group": group,
        "epsilon": accounting.group_epsilon(plan, delta, group, accountant),
        "best": accounting.group_epsilon(plan, delta, group),
        **more,
    }


def curves() -> dict[str, list[tuple[int, float]]]:
    """Epsilon against steps at the setting of Abadi et al.'s figure 2, by every accountant but basic composition."""
    steps = [epochs * round(1 / ABADI[0]) for epochs in EPOCHS]
    lines = {
        name: [(count, accounting.epsilon(sgd(*ABADI, count), DELTA, name)) for count in steps]
        for name in ("strong", "moments", "rdp", "pld")
    }
    return lines | {"strong, as published": [(count, abadi_figure(*ABADI, count, DELTA)) for count in steps]}


def table(results: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| mechanism | published | ours, the published way | ours | accountant | least valid bound | delta |",
        "|" + "---|" * 7,
    ]
    for result in results:
        published_way = result.get("integers", result.get("as_published"))
        way = "" if published_way is None else f"{published_way:.6g}"
        lines.append(
            f"| {result['what']} | {result['published']} | {way} | {result['epsilon']:.6g} | `{result['accountant']}` | "
            f"{result['best']:.6g} | {result['delta']:g} |"
        )
    return "\n".join(lines)


def text(results: list[dict[str, Any]], seen: dict[str, Any]) -> str:
    """The report, in words."""
    return f"""# Published privacy figures and ours

{table(results)}

"The published way" is integer orders only for the moments accountant, and for strong composition the formula that gives the
printed figure. The 9.34 of Abadi et al. is not a valid bound: it takes a Gaussian's epsilon from a formula that is proven
below 1 only (it is 1.46 here) and lets sampling multiply epsilon by the rate, where the lemma gives
log(1 + rate (e^epsilon - 1)), twice as much. The valid theorem (Kairouz, Oh & Viswanath 2015) gives the figure beside it.

![Epsilon against steps](accounting.png)

Rate {ABADI[0]:g}, noise {ABADI[1]:g}, delta {DELTA:g}, add_remove: the setting of figure 2 of Abadi et al. 2016.

![Epsilon by order](accounting_orders.png)

What each Renyi order gives for PyVacy's MNIST, 60 epochs (figure 3 of Waites 2019); the least is the bound.
`synthdp epsilon by_order=true` prints it.

dp-accounting {seen["versions"]["dp-accounting"]}, Python {seen["python"]}. No randomness. Written by `recipes/accounting.py`.
"""


def main() -> None:
    """Compute, draw, write."""
    results, lines, seen = rows(), curves(), record.provenance()
    record.write("accounting", {"rows": results, "figure": lines, "provenance": seen}, text(results, seen))
    title = f"noise {ABADI[1]:g}, rate {ABADI[0]:g}, delta {DELTA:g}"
    plots.save_comparison(record.REPORTS / "accounting.png", lines, title)
    orders = {name: points[: SHOWN - 1] for name, points in accounting.by_order(sgd(*PYVACY), DELTA).items()}
    plots.save_comparison(record.REPORTS / "accounting_orders.png", orders, "PyVacy's MNIST, 60 epochs", across="order")
    print(json.dumps({"rows": len(results)}))
    print(table(results))


if __name__ == "__main__":
    main()
