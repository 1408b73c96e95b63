"""Results of an evaluation as `synthdp.evaluate.evaluate` gives them, filled with drawn figures: for tests of pages."""

import numpy as np

CLASSES = {"lr": "Logistic regression", "rf": "Random forest", "gnb": "Gaussian naive Bayes", "xgb": "XGBoost"}
NUMBERS = {"lr": "Ridge regression", "rf": "Random forest of numbers"}
CLASS_METRICS = ("auroc", "auprc", "accuracy", "f1", "brier", "ece")
ATTACKS = (
    ("domias", "Density ratio", "Can one tell who was in the training table?", "Membership AUROC", 0.5),
    ("attribute", "Attribute inference", "Can one guess a secret of a person who was used?", "Accuracy gain", 0.0),
    ("singling_out", "Singling out", "Can one isolate one person by a rule?", "Share of rules that hit one", 0.03),
    (
        "closeness",
        "Distance to the closest record",
        "Do rows lie nearer to training records?",
        "Share nearer to training",
        0.5,
    ),
)


class Draws:
    """Figures with five decimals, none of them twice, so that a page's figure is found only where it belongs."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def number(self, low=0.0, high=1.0):
        return round(float(self.rng.uniform(low, high)), 5)

    def near(self, middle, spread=0.03):
        return round(float(middle + self.rng.uniform(-spread, spread)), 5)

    def summary(self, middle, *, interval=True, count=3):
        values = [self.near(middle) for _ in range(count)]
        found = {"mean": round(float(np.mean(values)), 5), "sd": self.number(0.001, 0.02), "n": count, "values": values}
        return {**found, "interval": [self.near(middle - 0.08), self.near(middle + 0.08)]} if interval else found

    def measure(self, middle, columns=()):
        floor = {"mean": self.near(middle / 2, 0.01), "sd": self.number(0, 0.1), "n": 9, "max": self.number(0.2, 0.5)}
        found = {"mean": self.near(middle, 0.01), "sd": self.number(0, 0.1), "n": 9, "max": self.number(0.2, 0.5)}
        named = {"columns": {name: self.number(0, 0.4) for name in columns}} if columns else {}
        return {**found, "floor": floor, **named}


def judged(seed=0):
    """A result of version 2 with every section: a binary target, one of three classes, a number, subgroups, rules, attacks."""
    draws, columns = Draws(seed), ("age", "sex", "weight <kg>", "income")
    names = list(columns)
    square = [[draws.number(0, 0.3) if a != b else 0.0 for b in names] for a in names]
    signs = [[draws.number(-0.5, 0.5) if a != b else 1.0 for b in names] for a in names]
    return {
        "schema_version": 2,
        "targets": {
            "income": {**_classes(draws, ["no", "yes"]), "positive": "yes", "calibration": _curves(draws)},
            "stage": {**_classes(draws, ["I", "II", "III"]), "positive": None},
            "weight <kg>": _number(draws),
        },
        "fidelity": {
            "tvd_1way": draws.measure(0.05, columns),
            "tvd_2way": {**draws.measure(0.09), "names": names, "matrix": square},
            "tvd_3way": draws.measure(0.12),
            "correlation_difference": {**draws.measure(0.04), "names": names, "synthetic": signs, "train": square},
            "wasserstein": draws.measure(0.03, ("age", "weight <kg>")),
            "missingness": draws.measure(0.02, columns),
            "range_queries": {
                **draws.measure(0.01),
                "share": draws.number(0.2, 0.4),
                "worst": {"query": "age from 18 to 40 and sex in {female}", "synthetic": 0.31234, "train": 0.21987},
            },
            "detection_auc": {**draws.summary(0.7), "floor": draws.summary(0.5)},
            "pmse": {
                **draws.summary(0.06),
                "floor": {**draws.summary(0.04), "ratio": draws.number(1, 3)},
                "ratio": draws.number(1, 3),
            },
            "alpha_precision": _support(draws),
            "beta_recall": _support(draws),
            "rules": [
                {"rule": "admitted <= discharged", "synthetic": 0.01234, "train": 0.0, "test": 0.00121},
                {"rule": "age >= 18", "synthetic": 0.0, "train": 0.00456, "test": None},
            ],
        },
        "columns": {name: _column(draws) for name in columns},
        "attacks": [_attack(draws, *attack) for attack in ATTACKS],
        "not_computed": [{"metric": "utility.weight <kg>.calibration", "reason": "the target is a number"}],
        "about": {
            "data": "clinic",
            "rows": {"synthetic": 12034, "train": 12001, "test": 3005},
            "columns": 4,
            "seeds": [0, 1, 2],
            "samples": 2,
            "models": CLASSES,
            "regressors": NUMBERS,
            "bootstrap": 200,
            "limits": {"lr": None, "rf": "at most 20,000 training rows", "gnb": None, "xgb": None},
            "versions": {"synthdp": "0.1.0"},
            "claim": {"epsilon": 1.0, "delta": 1e-5, "unit": "patient"},
        },
    }


def _classes(draws, classes):
    arms = {"tstr": 0.8, "trtr": 0.85, "independent": 0.52}
    scores = {arm: {m: {k: draws.summary(at) for k in CLASS_METRICS} for m in CLASSES} for arm, at in arms.items()}
    return {
        "kind": "classes",
        "tstr": scores["tstr"],
        "trtr": scores["trtr"],
        "floors": {
            "independent": scores["independent"],
            "majority": {k: draws.summary(0.5, interval=False, count=1) for k in CLASS_METRICS},
        },
        "average": {arm: {k: draws.summary(at) for k in CLASS_METRICS} for arm, at in arms.items()},
        "classes": classes,
        "rows": {"synthetic": 12034, "train": 12001, "test": 3005},
        "ranks": {
            "metric": "auroc",
            "kendall": draws.number(0.3, 0.9),
            "kendall_interval": [0.21, 0.95],
            "pairs": 6,
            "best_synthetic": "lr",
            "best_real": "xgb",
            "regret": draws.number(0.001, 0.02),
            "regret_interval": [0.0, 0.0417],
        },
        "subgroups": {
            "sex": _groups(draws, ("female", "male"), 0.8),
            "age": _groups(draws, ("18 to 39", "40 to 64"), 0.8),
        },
    }


def _number(draws):
    arms, metrics = {"tstr": 0.5, "trtr": 0.6, "independent": 0.05}, ("rmse", "mae", "r2")

    def scores(at):
        return {**{k: draws.summary(20 - 10 * at) for k in metrics[:2]}, "r2": draws.summary(at)}

    return {
        "kind": "number",
        "tstr": {m: scores(arms["tstr"]) for m in NUMBERS},
        "trtr": {m: scores(arms["trtr"]) for m in NUMBERS},
        "floors": {
            "independent": {m: scores(arms["independent"]) for m in NUMBERS},
            "mean": {k: draws.summary(at, interval=False, count=1) for k, at in zip(metrics, (21, 17, 0), strict=True)},
        },
        "average": {arm: scores(at) for arm, at in arms.items()},
        "classes": [],
        "positive": None,
        "rows": {"synthetic": 12000, "train": 11990, "test": 3001},
        "subgroups": {"sex": {**_groups(draws, ("female", "male"), 15), "metric": "rmse"}},
    }


def _groups(draws, names, middle):
    levels = []
    for name in names:
        made, real, gap = draws.near(middle), draws.near(middle), draws.number(0.01, 0.06)
        levels.append(
            {
                "level": name,
                "rows": int(draws.rng.integers(100, 2000)),
                "tstr": {"mean": made, "interval": [draws.near(made - 0.1), draws.near(made + 0.1)]},
                "trtr": {"mean": real, "interval": [draws.near(real - 0.1), draws.near(real + 0.1)]},
                "gap": gap,
                "gap_interval": [draws.near(gap - 0.005, 0.004), draws.near(gap + 0.005, 0.004)],
            }
        )
    worst = max(levels, key=lambda level: level["gap"])["level"]
    few = {"level": "unknown", "rows": 7, "reason": "7 test rows; at least 50 are needed"}
    return {"metric": "auroc", "levels": [*levels, few], "worst": worst, "worst_by": "gap"}


def _curves(draws):
    def curve():
        return [
            {"predicted": x / 10 + 0.05, "observed": draws.near(x / 10 + 0.05, 0.05), "rows": 300 - 25 * x}
            for x in range(10)
        ]

    return {"tstr": curve(), "trtr": curve()}


def _support(draws):
    curve = [[round(level, 2), draws.near(level, 0.05)] for level in np.linspace(0.1, 0.9, 9)]
    floor = {"mean": draws.number(0.95, 0.99), "curve": curve}
    return {"mean": draws.number(0.7, 0.95), "floor": floor, "curve": curve, "rows": 3000}


def _column(draws):
    parts = [draws.rng.dirichlet(np.ones(3)).tolist() for _ in range(2)]
    return {"kind": "category", "labels": ["a", "b", "(missing)"], "train": parts[0], "synthetic": parts[1]}


def _attack(draws, key, title, question, label, baseline):
    value = draws.near(baseline + 0.01, 0.005)
    item = {
        "label": label,
        "value": value,
        "interval": [draws.near(value - 0.02, 0.005), draws.near(value + 0.02, 0.005)],
        "baseline": baseline,
        "bound": draws.number(0.6, 0.75),
        "better": "chance" if baseline == 0.5 else "lower",
    }
    return {
        "id": key,
        "title": title,
        "question": question,
        "verdict": "pass",
        "text": "At chance.",
        "figures": [item],
        "source": "van Breugel et al. 2023",
    }
