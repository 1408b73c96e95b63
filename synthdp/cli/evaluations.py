"""`synthdp evaluate`: synthetic records judged against real ones, and what matters of it in a few lines."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import judged, places, real_records, settings, show

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.schema import Schema

Config = Mapping[str, Any]


def evaluate(config: Config) -> None:
    """Judge synthetic records; what it writes is internal."""
    from synthdp.sets import record_files

    options: settings.Evaluate = config["options"]
    out = places.folder(options.out, force=options.force)
    schema, train, test = real_records.real(config["data"])
    synthetic = record_files.read(Path(options.synthetic), schema=record_files.as_written(schema))
    samples, claim = judged.samples_of(synthetic, options.release, config["evaluate"].samples)
    result = evaluated(samples, train, test, schema, config["evaluate"], out, claim, pdf=options.pdf)
    for line in headline(result):
        print(line)
    print(f"page       {out / 'evaluation.html'}{' and .pdf' if options.pdf else ''} (internal: do not release)")


def evaluated(
    samples: "list[pd.DataFrame]",
    train: "pd.DataFrame",
    test: "pd.DataFrame",
    schema: "Schema",
    judge: settings.Judge,
    out: Path,
    claim: dict[str, Any] | None,
    *,
    pdf: bool = False,
) -> Mapping[str, Any]:
    """The judgement, written to `out` as JSON and as a page."""
    from synthdp import evaluate as judging

    if pdf:
        from synthdp.pages.pdf import check

        check()

    with show.progress("evaluate") as step:
        result = judged.judged(samples, train, test, schema, judge, claim, step)
    judging.write(result, out, pdf=pdf)
    return result


def headline(result: Mapping[str, Any]) -> list[str]:
    """What matters, a line each: utility beside its ceiling, fidelity, the subgroup that loses most, the attacks' verdicts."""
    if result.get("kind") == "images":
        from synthdp.evaluate.images.image_findings import headline as told

        return told(result)
    lines = []
    for target, scores in result["targets"].items():
        if scores.get("kind") == "number":
            lines += _number_line(target, scores["average"])
            continue
        tstr, trtr = _mean_auroc(scores["tstr"]), _mean_auroc(scores["trtr"])
        if tstr is not None and trtr is not None:
            lines.append(
                f"TSTR AUROC          {tstr:.3f} on {target}; trained on real records {trtr:.3f}; chance 0.500"
            )
    lines += [f"not computed        {item['metric']}: {item['reason']}" for item in result["not_computed"]]
    two_way = result["fidelity"].get("tvd_2way")
    if two_way:
        lines.append(f"fidelity            mean 2-way total variation distance {two_way['mean']:.3f}; 0 is perfect")
    from synthdp.evaluate.findings import brief

    return lines + [f"{label:<18}  {text}" for label, text in brief(result)]


def _number_line(target: str, average: Mapping[str, Any]) -> list[str]:
    made, real = (average.get(arm, {}).get("r2") for arm in ("tstr", "trtr"))
    if made is None or real is None:
        return []
    return [
        f"TSTR R2             {made['mean']:.3f} on {target}; trained on real records {real['mean']:.3f}; the mean 0.000"
    ]


def _mean_auroc(models: Mapping[str, Any]) -> float | None:
    values = [scores["auroc"]["mean"] for scores in models.values() if "auroc" in scores]
    return sum(values) / len(values) if values else None
