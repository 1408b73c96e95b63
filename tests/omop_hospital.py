"""The made-up hospital as a CDM, with its made-up vocabulary, for tests: recipes/made_up_omop.py writes both."""

from pathlib import Path

import made_up_omop

from synthdp.omop import cdm


def tables(people=300, seed=1):
    """Frames of the CDM, with every field of the model."""
    made = made_up_omop.tables(people, seed)
    return made_up_omop.whole(made, lambda name: (field.name for field in cdm.tables()[name]))


def write(folder, people=300, seed=1):
    """Write folder/cdm and folder/vocabulary."""
    made_up_omop.write(tables(people, seed), Path(folder) / "cdm")
    write_vocabulary(folder)


def write_vocabulary(folder):
    """Write folder/vocabulary, as Athena does: separated by tabs, its names in quotes."""
    made_up_omop.write(made_up_omop.vocabulary(), Path(folder) / "vocabulary", separator="\t")


def answered(draft, **changes):
    """A draft with its questions answered as a steward of the made-up hospital would."""
    text = "".join(f"{line}\n" for line in draft.splitlines() if "review: true" not in line)
    text = text.replace("declared_by:", "declared_by: the tests").replace(
        "units: learn", f"units: {changes.get('units', 300)}"
    )
    first = text.index("bounds: [20", text.index("death_date"))
    years = text[first : text.index("\n", first)].partition("  #")[0]
    return text.replace(years, "bounds: [2021-01-01, 2024-12-31]").replace("max_rows: 10", "max_rows: 4")
