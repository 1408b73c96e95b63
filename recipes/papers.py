"""What the founding documents print beside what the recipes measured -> reports/papers.{json,md}.

It runs nothing: every figure of ours is read from another recipe's report, so those come first. A published figure that no recipe
has run is a row of its own, "not run".
"""

import json
import math
import statistics
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import record

DOCUMENTS = {
    "pate": "PATE (Papernot, Abadi, Erlingsson, Goodfellow & Talwar 2017)",
    "pyvacy": "PyVacy (Waites 2019)",
    "tutorial": "Private synthetic data by DP-GANs and PATE-GAN: the tutorial's toolbox (Borealis AI)",
    "slides": "Lecture slides on learning under differential privacy (figures of Abadi et al. 2016)",
}
NOTHING: Mapping[str, Any] = {"mean": math.nan, "sd": math.nan, "n": 0}
REAL = (0.836, 0.837, 0.872, 0.809, 0.883)  # AUROC of the toolbox's five models, trained on its real rows of Adult
SEEDS = 3
DRAWN = "drawn, to be compared by eye"
NOISE_LEVELS = 3  # of the tutorial's figure 2
RETRIED = "MLP 784-1000-10"
STEPPED, RELEASED = "MLP 784-512-256-1", "the noise of a release"
Row = dict[str, Any]


@cache
def report(name: str) -> Any:
    """What a recipe wrote."""
    return json.loads((record.REPORTS / f"{name}.json").read_text(encoding="utf-8"))


def of(rows: list[Row], **wanted: Any) -> Row:
    """The one row with these values."""
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows have {wanted}")
    return found[0]


def row(
    document: str,
    what: str,
    published: str,
    ours: Mapping[str, Any] = NOTHING,
    *,
    least: float | None = None,
    most: float | None = None,
    source: str = "",
    because: str = "",
    otherwise: bool = False,
) -> Row:
    """One published figure. It is reproduced where ours lies within [`least`, `most`], is exact or of three seeds, and was not got
    by other means than theirs (`otherwise`: `because` says by which)."""
    reached = (least is None or ours["mean"] >= least) and (most is None or ours["mean"] <= most)
    if ours["n"] == 0:
        word = "not run"
    elif not reached:
        word = "not reproduced"
    elif ours["n"] is not None and ours["n"] < SEEDS:
        word = "reached with too few seeds"
    else:
        word = "reached by other means" if otherwise else "reproduced"
    return {
        "document": DOCUMENTS[document],
        "what": what,
        "published": published,
        "ours": None if ours["n"] == 0 else dict(ours),
        "source": source,
        "verdict": word,
        "because": because,
    }


def exact(value: float) -> dict[str, Any]:
    """A figure that has no randomness."""
    return {"mean": value, "sd": 0.0, "n": None}


def accounted(what: str) -> dict[str, Any]:
    """Ours, by the way in which the figure was published."""
    found = of(report("accounting")["rows"], what=what)
    published_way = found.get("integers") or found.get("as_published")
    return exact(published_way or found["epsilon"])


def pate() -> list[Row]:
    """Section 4 and appendix C; Laplace votes of scale 20, 250 teachers."""
    mnist, adult = report("pate_mnist")["rows"], report("pate_adult")
    paper = "LNMax, Laplace scale 20 (the paper's)"
    soon = of(report("pate_diabetes")["questions"], question="within 30 days")["rows"]
    one, many = (
        "100 Laplace votes of 0.1-DP (Papernot et al. 2017)",
        "1,000 Laplace votes of 0.1-DP (the same paper, SVHN)",
    )
    strokes = "our teachers are support vector machines on directions of strokes, not convolutional networks"
    forest = (
        "their 18 features are not printed; ours, on balanced classes, are worth .617 without privacy; rows repeated before they are dealt "
        "to training and test give .99, as theirs may have been"
    )
    at = of(mnist, case=paper)
    like = partial(row, "pate", source="pate_mnist", because=strokes, otherwise=True)
    return [
        like("MNIST, 100 queries: student", "98.00 %", at["accuracy"], least=0.98),
        like("MNIST: its data-dependent epsilon", "2.04", at["epsilon_data_dependent"], most=2.04),
        like("MNIST: one teacher", "83.86 %", at["teacher_accuracy"], least=0.8386),
        like("MNIST: noisy labels", "93.18 %", at["label_accuracy"], least=0.9318),
        thousand(mnist),
        whole(),
        row(
            "pate",
            "Adult, 500 queries: student",
            "83 %",
            of(adult["rows"], case=paper)["accuracy"],
            least=0.825,
            source="pate_adult",
            because="the noisy labels are right in 83.0 %",
        ),
        row(
            "pate",
            "Adult: its data-dependent epsilon",
            "2.66",
            of(adult["rows"], case=paper)["epsilon_data_dependent"],
            most=2.66,
            source="pate_adult",
        ),
        row("pate", "Adult without privacy", "85 %", adult["non_private"], least=0.845, source="pate_adult"),
        row(
            "pate",
            "Diabetes, 500 queries: student",
            "93.94 % at 1.44",
            of(soon, case=paper)["accuracy"],
            least=0.935,
            source="pate_diabetes",
            because=forest,
        ),
        row(
            "pate",
            "MNIST: epsilon by strong composition",
            "5.80",
            accounted(one),
            least=5.795,
            most=5.805,
            source="accounting",
        ),
        row(
            "pate",
            "SVHN: epsilon by strong composition",
            "about 26",
            accounted(many),
            least=25.5,
            most=26.5,
            source="accounting",
            because="by the formula that gives 5.80 above; 26.62 rounds to 27, and is 26 only if the rest is cut off",
        ),
        row("pate", "SVHN, 1,000 queries: student", "90.66 % at 8.19", because="no SVHN at hand"),
        drawn("pate", "Figures 2 and 3: accuracy and gap of votes, by gamma and by teachers", "curves", "pate_curves"),
    ]


def thousand(mnist: list[Row]) -> Row:
    """The second row of the paper's table of MNIST, where it has run."""
    what, published, case = "MNIST, 1,000 queries: student", "98.10 % at 8.03", "LNMax, 1,000 queries"
    if not any(each["case"] == case for each in mnist):
        return row("pate", what, published)
    found = of(mnist, case=case)
    return row(
        "pate",
        what,
        published,
        found["accuracy"],
        least=0.981,
        source="pate_mnist",
        because=f"teachers as above; its data-dependent epsilon: {found['epsilon_data_dependent']['mean']:.2f}",
        otherwise=True,
    )


def whole() -> Row:
    """The paper's ceiling on MNIST, where it has run."""
    what, published, found = "MNIST without privacy", "99.18 %", report("pate_mnist").get("non_private")
    if found is None:
        return row("pate", what, published)
    because = "a network on directions of strokes, not a convolutional one"
    return row("pate", what, published, found, least=0.9918, source="pate_mnist", because=because, otherwise=True)


def drawn(document: str, what: str, published: str, name: str, source: str = "") -> Row:
    """A published figure without numbers: there is ours to look at, in the report `source`, or there is none."""
    if not any((record.REPORTS / f"{name}.{ending}").exists() for ending in ("json", "png")):
        return row(document, what, published)
    return {**row(document, what, published, source=source or name), "verdict": DRAWN}


def pyvacy() -> list[Row]:
    """Its README and paper: classifiers of MNIST, their epsilon, the price of a step."""
    return [
        trained("MNIST, MLP, epsilon 3: accuracy", "95 %", RETRIED, 3.0, least=0.95),
        trained("MNIST, MLP, no privacy: accuracy", "98 %", RETRIED, None, least=0.98),
        trained("MNIST, convolutional, epsilon 3: accuracy", "95 %", "convolutional", 3.0, least=0.95),
        row(
            "pyvacy",
            "MNIST, 60 epochs: epsilon by moments",
            "3.0",
            accounted("Waites 2019 (PyVacy), MNIST, 60 epochs"),
            least=2.95,
            most=3.05,
            source="accounting",
        ),
        drawn("pyvacy", "Figure 3: epsilon by order", "curve", "accounting_orders", "accounting"),
        *steps(),
        row(
            "pyvacy",
            "Figure 4",
            "curves",
            because="the paper is not at hand, and PyVacy's repository (README, tutorials) does not say what it plots",
        ),
        plain(),
    ]


def steps() -> list[Row]:
    """The price of a step, twice each: by noise as PyVacy draws it, and by the noise of a release. Of several processors the dearest."""
    measured = report("bench_step")
    runs = [measured, *measured["elsewhere"]]
    on_gpu = of(report("bench_gpu")["rows"], model=STEPPED, batch=600)
    rows = []
    for noise, way in (("torch's noise, as theirs", "torch's noise"), (RELEASED, "hardened noise")):
        ratios = {
            run["provenance"]["processor"]: of(run["results"], model=STEPPED, batch=256)["ways"][f"buckets, {way}"][
                "ratio"
            ]
            for run in runs
        }
        said = ", ".join(f"{ratio:.2f} on {name}" for name, ratio in ratios.items())
        because = f"{said}; batch 256; ours bounds rounding too, in buckets of units; another network, another machine"
        what = f"A private step over a plain one (CPU), {noise}"
        ours = exact(max(ratios.values()))
        rows.append(row("pyvacy", what, "1.83", ours, most=1.83, source="bench_step", because=because))
    for noise, way, because in (
        (
            "the GPU's noise, as theirs",
            "as a fit, the GPU's noise",
            "on an H200, batch 600; this noise is not fit for a release",
        ),
        (RELEASED, "as a fit, hardened noise", "on an H200, batch 600; this noise is drawn on the CPU"),
    ):
        what = f"A private step over a plain one (GPU), {noise}"
        ours = exact(on_gpu["ratios"][way])
        rows.append(row("pyvacy", what, "2.66", ours, most=2.66, source="bench_gpu", because=because))
    return rows


def trained(what: str, published: str, network: str, epsilon: float | None, least: float) -> Row:
    """A classifier of MNIST, where it has run; with privacy by other settings than PyVacy's, whatever it reaches."""
    found = [
        each for each in report("trainer_mnist")["rows"] if (each["network"], each["epsilon"]) == (network, epsilon)
    ]
    if not found:
        return row("pyvacy", what, published)
    because = ""
    if epsilon is not None:
        by = found[0]["epsilon_by"]
        because = (
            f"epsilon is {by['pld']:.2f} by PLD; by moments, PyVacy's accountant, the same training costs {by['moments']:.2f}, by RDP "
            f"{by['rdp']:.2f}; other settings than PyVacy's, chosen on training pictures that were held out"
        )
        because += ", after a first choice had missed 95 % on the test pictures" if network == RETRIED else ""
    ours, otherwise = found[0]["accuracy"], epsilon is not None
    return row(
        "pyvacy", what, published, ours, least=least, source="trainer_mnist", because=because, otherwise=otherwise
    )


def slides() -> list[Row]:
    """Figure 2 of Abadi et al. 2016: rate 0.01, noise 4, 10,000 steps."""
    name = "Abadi et al. 2016, figure 2: 10,000 steps"
    return [
        row("slides", "Epsilon by moments", "1.26", accounted(name), least=1.255, most=1.265, source="accounting"),
        row(
            "slides",
            "Epsilon by strong composition",
            "9.34",
            accounted("the same by strong composition"),
            least=9.335,
            most=9.345,
            source="accounting",
            because="the formula that gives it is no valid bound; the valid one gives 14.19",
        ),
    ]


def tutorial() -> list[Row]:
    """Adult, mean AUROC of five models on real test rows, from the toolbox's results.md: one run each, at epsilon 8, 5 and 2."""
    published = {
        "DP-WGAN": ".746 / .685 / .611",
        "PATE-GAN": ".569 / .598 / .555",
        "RON-Gauss": ".614 / .619 / .613",
        "IMLE": ".778 / .789 / .742",
    }
    runs, compared = report("pategan")["rows"], report("compare_adult")["rows"]
    near = {"section": "epsilon", "data": "adult", "epsilon": 1.0}
    more = {
        "PATE-GAN": row(
            "tutorial",
            "PATE-GAN on Adult from no tables: ours at epsilon 1",
            published["PATE-GAN"],
            of(runs, **near, generator="pategan, start=none")["auroc"],
            least=0.598,
            source="pategan",
            because="not the paper's algorithm, but one whose changes from it are listed",
            otherwise=True,
        )
    }
    means = {
        "rongauss": "Gaussian noise, and rows are mapped back to the table",
        "imle": "trained from noisy counts and sums",
    }
    for name, ours, least in (("DP-WGAN", "DP-WGAN", 0.746), ("RON-Gauss", "rongauss", 0.619), ("IMLE", "imle", 0.789)):
        there = [each for each in compared if each["generator"] == ours and each["epsilon"] == 1.0]
        if there:
            more[name] = row(
                "tutorial",
                f"{name} on Adult: ours at epsilon 1",
                published[name],
                there[0]["auroc"],
                least=least,
                source="compare_adult",
                because=means.get(ours, "the same method, on another form of the table"),
                otherwise=True,
            )
    original = row(
        "tutorial",
        "PATE-GAN on Adult, the paper's algorithm: ours at epsilon 1",
        published["PATE-GAN"],
        of(runs, **near, generator="pategan_original")["auroc"],
        least=0.555,
        source="pategan",
        because=drowned(),
    )
    return [
        levels(),
        original,
        *(more.get(name, row("tutorial", f"{name} on Adult", text)) for name, text in published.items()),
    ]


def drowned() -> str:
    """What the report holds about why the paper's algorithm fails at a finite epsilon: teachers of other sizes, and fewer labels."""
    rows = [row for row in report("pategan")["rows"] if row["section"] == "sizes"]
    small = of(rows, generator="pategan_original, teachers of 50 records")["auroc"]
    few = of(
        rows, generator="pategan_original, teachers of 1,000 records, as many labels as epsilon 10 buys by default"
    )
    large = of(rows, generator="pategan_original, teachers of 1,000 records", epsilon=1.0)["auroc"]
    return (
        f"the noise in the votes: without it, teachers of 50 records, which it has at a private epsilon, reach {shown(small)}, and as many "
        f"labels as epsilon 10 buys {shown(few['auroc'])}; with it, teachers of 1,000 records reach {shown(large)}"
    )


def ceilings() -> str:
    """What models reach that were trained on real rows: the toolbox's Adult is another table than ours."""
    found = report("compare_adult")
    ours = of(found["rows"], generator="real training rows (ceiling)")["auroc"]["mean"]
    table = of(report("tabular")["tables"], data="adult")
    return (
        f"The toolbox's Adult has 33,916 rows of 12 columns, all continuous. Its mean over five models is {statistics.fmean(REAL):.3f} "
        f"for models trained on real rows ({', '.join(f'{auroc:.3f}' for auroc in REAL)}, `results.md`). Our Adult has {table['units']:,} "
        f"training rows of {table['columns']} columns, categories among them, and the mean over {len(found['models'])} models "
        f"({', '.join(found['models'])}) is {ours:.3f} for models trained on real rows. So ours and theirs are figures of two tasks, and "
        "ours is the easier one: no row below on Adult counts as reproduced."
    )


def plain() -> Row:
    """Pictures at four budgets; what is not there yet is told."""
    what = "Its plain DPGAN at epsilon 0.3, 1, 8 and infinity"
    found = drawn("pyvacy", what, "pictures", "plain_dpgan")
    there = {each["epsilon"] for each in report("plain_dpgan")["rows"] if each["generator"].startswith("plain")}
    lacking = [
        name for name, epsilon in (("0.3", 0.3), ("1", 1.0), ("8", 8.0), ("infinity", None)) if epsilon not in there
    ]
    return (
        found
        if not lacking
        else {**found, "verdict": "not run", "because": f"epsilon {', '.join(lacking)} lacks; the others are drawn"}
    )


def levels() -> Row:
    """Accuracy by epoch, where that has run; what it comes to is told, and there is no published figure to compare it with."""
    what, published, curves = (
        "Figure 2: MNIST by DP-SGD at three noise levels",
        "curves",
        report("trainer_mnist").get("curves"),
    )
    if not curves:
        return row("tutorial", what, published)
    ends = ", ".join(f"{level['accuracy']['mean']:.1%} at epsilon {level['epsilon']:g}" for level in curves)
    short = "" if len(curves) == NOISE_LEVELS else f"; {NOISE_LEVELS - len(curves)} of the levels has not run"
    found = row("tutorial", what, published, source="trainer_mnist", because=f"they end at {ends}{short}")
    return found if short else {**found, "verdict": DRAWN}


def shown(found: Mapping[str, Any] | None) -> str:
    """Mean and spread, an exact figure, or nothing."""
    if found is None:
        return "-"
    if found["n"] is None:
        return f"{found['mean']:.4g}"
    return f"{found['mean']:.3f} ± {found['sd']:.3f} ({found['n']})"


def text(rows: list[Row]) -> str:
    """The report, in words."""
    parts = []
    for key, document in DOCUMENTS.items():
        lines = [
            *([ceilings(), ""] if key == "tutorial" else []),
            "| what | published | ours | verdict | because | report |",
            "|" + "---|" * 6,
        ]
        lines += [
            f"| {each['what']} | {each['published']} | {shown(each['ours'])} | {each['verdict']} | {each['because']} | "
            f"{each['source'] and '[' + each['source'] + '](' + each['source'] + '.md)'} |"
            for each in rows
            if each["document"] == document
        ]
        parts.append(f"## {document}\n\n" + "\n".join(lines))
    verdicts = [each["verdict"] for each in rows]
    counted = "; ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))
    return f"""# The founding documents and ours

In {len(rows)} rows this page sets figures that the founding documents print beside what the recipes of this project measured:
{counted}.

Our figures are the mean ± the standard deviation over seeds, with the number of seeds in brackets. They are read from the report that
the last column names, and that report says at which commit they were measured. A figure without a number of seeds is exact, or a median.

The recipe decides the verdict by a rule. A figure is reproduced if ours, from at least {SEEDS} seeds, is as good as the published one to
the digits that were printed; an epsilon that is computed has to round to the published one. "Reached by other means" says that ours is as
good, but by another method than theirs, on another form of the data, or by another accountant; the column "because" names the difference.
The price of a step stands twice for each published figure: by noise as PyVacy draws it, and by the noise of a release. Curves
and pictures have no figure to compare: ours are drawn, for the reader to judge.

McMahan & Andrew 2018, the fifth document, prints definitions and no measured figure.

{chr(10).join(f"{part}{chr(10)}" for part in parts)}
`recipes/papers.py` wrote this page from the other reports; it measures nothing itself.
"""


def rows() -> list[Row]:
    """All published figures."""
    return [*pate(), *pyvacy(), *tutorial(), *slides()]


def main() -> None:
    """Read, compare, write."""
    found = rows()
    record.write("papers", {"rows": found}, text(found))


if __name__ == "__main__":
    main()
