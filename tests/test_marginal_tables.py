"""What a fit was told of tables: what was lost by it, and the tables themselves as part of a release."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema, picture_schema, quick, reseal
from sweeps import heavy

from synthdp import BadInput, Budget, Schema, Synthesizer, load, marginal_tables, released_tables, verify
from synthdp.cli import run
from synthdp.report.information_loss import Hidden, HiddenPairs, brief, sentences
from synthdp.schema.codec import Codec
from synthdp.seal import Marginals, Sensitive
from synthdp.seal.charging import Account
from synthdp.seal.replay import Recorder
from synthdp.testing.made_up import ORDERED

BUDGET = Budget(20.0, 1e-5)
COLUMNS = {
    "code": {"kind": "categorical", "categories": ["a", "b", "rest"], "other": "rest"},
    "weight": {"kind": "continuous", "bounds": [0, 200], "bins": 10},
    "day": {"kind": "datetime", "bounds": ["2020-01-01", "2021-01-01"], "resolution": "day", "missing": True},
    "ill": {"kind": "boolean"},
}


def schema(**facts):
    return Schema.from_dict({"declared_by": "test", "units": 1000, "columns": COLUMNS, **facts})


def records(rows=1000):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "code": rng.choice(["a", "b", "c", "d"], rows, p=[0.3, 0.3, 0.2, 0.2]),
            "weight": rng.uniform(40, 120, rows),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D"),
            "ill": rng.random(rows) < 0.5,
        }
    )


def fit(generator="independent", frame=None, declared=None, **options):
    made = Synthesizer(
        quick(generator) if isinstance(generator, str) else generator, schema=declared or schema(), budget=BUDGET
    )
    return made.fit(records() if frame is None else frame, **options)


def test_the_share_of_merged_categories_is_that_of_the_noisy_counts():
    release = fit(invalid="clamp", answers=True)
    (merged,) = release.statement.lost.merged
    assert (merged.column, merged.other) == ("code", "rest")
    assert abs(merged.share - 0.4) < 0.05
    codes = release.tables()["one_way"].query("column == 'code'")
    noisy = codes.set_index("value")["count"]
    assert merged.share == pytest.approx(noisy["rest"] / noisy.sum(), abs=1e-4)
    assert merged.error == pytest.approx(codes["standard_error"].iloc[0] / noisy.sum(), rel=0.05)


@pytest.mark.heavy
def test_where_no_table_shows_a_column_its_share_is_that_of_synthetic_records():
    frame = make_frame(200)
    release = fit(quick("dpgan"), frame, make_schema(columns={"sex": {"kind": "categorical", "categories": "learn"}}))
    for merged in release.statement.lost.merged:
        assert merged.error is None
    assert not release.statement.lost.alone  # of what a network learned no table tells


TREE = {"kind": "categorical", "categories": ["a1", "a2", "a3", "b1", "b2"], "tree": {"prefix": [1]}, "missing": True}


def with_tree(rows=4000):
    rng = np.random.default_rng(4)
    codes = rng.choice(["a1", "a2", "b1", None], rows, p=[0.5, 0.2, 0.2, 0.1])
    return records(rows).assign(code=codes)


@pytest.mark.parametrize("generator", ["independent", heavy("dpgan")])
def test_what_was_lost_says_at_which_level_codes_were_kept(generator, tmp_path):
    """In one fit of five noise keeps a node that nobody has (a false discovery rate of a fifth), with seed 1 for one."""
    declared = schema(columns={**COLUMNS, "code": TREE}, units=4000)
    release = fit(quick(generator), with_tree(), declared, seed=2)
    column, (levels,) = release.schema.column("code"), release.statement.lost.levels
    assert column.categories == ("a", "a1", "a2", "b", "b1", "other"), (
        "nobody has a3 and b2, but their parents stand for them"
    )
    assert levels.codes == (2, 3)
    if generator == "independent":
        assert levels.shares[1] == pytest.approx(0.9, abs=0.03)
        assert levels.errors
        assert "at level 2 of 2 (3 codes)" in " ".join(sentences(release.statement))
    loaded = load(release.save(tmp_path / "release"))
    assert loaded.statement.lost == release.statement.lost
    altered = replace(release.statement.lost, levels=(replace(levels, codes=(0, 3)),))
    told = release.statement.counted
    assert release.statement.lost.matches(release.schema, told, clamped=False)
    assert not altered.matches(release.schema, told, clamped=False)


@pytest.mark.heavy
def test_columns_that_no_table_shows_with_another_are_named():
    assert fit().statement.lost.alone == ("code", "weight", "day", "ill")
    release = fit("mst", fitness=0.1, seed=1)
    assert release.statement.lost.alone == ()
    assert [each.purpose for each in release.statement.counted] == ["model", "model", "fitness"]


@pytest.mark.parametrize(
    ("column", "cells", "kept"),
    [
        ("weight", "12,5 kg", 0),
        ("weight", "12,5", 20),  # whole numbers are read whatever the decimal sign
        ("weight", -9.0, 0),
        ("day", "soon", 0),
        ("day", "31.12.2020", 20),
        ("ill", "ja", 0),
    ],
)
def test_clamp_says_by_noisy_counts_which_columns_lie_where_bad_cells_are_put(column, cells, kept):
    frame = records().astype({column: object})
    frame.loc[kept:, column] = cells
    assert fit(frame=frame, invalid="clamp").statement.lost.empty == (column,)
    assert fit(invalid="clamp").statement.lost.empty == ()
    few = records(20_000).assign(ill=np.arange(20_000) % 40 == 0)
    assert fit(frame=few, declared=schema(units=20_000), invalid="clamp").statement.lost.empty == (), (
        "a rare event is no mistake"
    )
    ruined = Synthesizer("independent", schema=schema(), budget=Budget(0.01, 1e-5)).fit(frame, invalid="clamp")
    assert ruined.statement.lost.empty == (), "where noise hides all, nothing is said"


def test_a_column_that_is_nearly_constant_is_not_called_invalid():
    """Noise hides the few others, so that nothing tells such a column from one whose cells could not be read."""
    sound = records(3000).assign(code=np.where(np.arange(3000) % 100 == 0, "b", "a"), ill=np.arange(3000) % 100 == 0)
    house = {"kind": "categorical", "categories": ["a", "b"]}
    declared = schema(columns={**COLUMNS, "code": house}, units=3000)
    release = Synthesizer("independent", schema=declared, budget=Budget(0.3, 1e-5)).fit(sound, invalid="clamp", seed=1)
    (told,) = [each for each in sentences(release.statement) if "invalid=clamp" in each]
    assert told.startswith("The noisy counts of code, ill lie nearly all where invalid=clamp also puts cells")
    assert "as it should be if the records are like that" in told
    assert not [each for each in sentences(fit(frame=sound, declared=declared).statement) if "nearly all" in each]


def test_declared_categories_that_noise_hides_are_told(tmp_path):
    wards = {"kind": "categorical", "categories": ["north", "south", "hospice", "spa", "rest"], "other": "rest"}
    column = schema(columns={"ward": wards}).column("ward")

    def hidden(counts, deviation, groups=(0, 1, 2, 3, 4)):
        cells = np.array(counts, float)
        answer = marginal_tables.Answer(names=("ward",), groups=(np.array(groups),), cells=cells, deviation=deviation)
        return marginal_tables._hidden(answer, column)

    found = hidden([7000, 2900, 35, -20, 15], 20.0)
    assert found == Hidden(column="ward", categories=("hospice", "spa"), share=round((35 + 40) / 9930, 4))
    assert hidden([7000, 2900, 41, 41, 0], 20.0) is None, "all stand clear; of `rest` another line tells"
    assert hidden([7000, 2900, 0, 0, 0], 4.0) is None, "fewer than a thousandth are not worth a word"
    every = hidden([10, 10, 10, 10, 10], 20.0)
    assert every.categories == ("north", "south", "hospice", "spa"), "noise hides the whole column"
    assert every.text == "ward north, south, hospice, spa", "a bound of all records is none"
    assert found.text == "ward hospice, spa (each probably under 0.8% of records)"
    assert hidden([9900, 30], 20.0, (0, 0, 1, 1, 1)) is None, "categories were counted together"

    spa = np.random.default_rng(0).choice(["north", "spa"], 1000, p=[0.999, 0.001])
    declared = schema(columns={**COLUMNS, "ward": wards})
    release = Synthesizer("independent", schema=declared, budget=Budget(0.3, 1e-5)).fit(records().assign(ward=spa))
    (told,) = [each for each in release.statement.lost.hidden if each.column == "ward"]
    assert "north" not in told.categories
    (said,) = [line for line in sentences(release.statement) if "told from noise" in line]
    assert told.text in said
    assert load(release.save(tmp_path / "release")).statement.lost == release.statement.lost


@pytest.mark.parametrize("generator", ["independent", "mixture"])
def test_bounds_in_whose_larger_part_nobody_is_are_told(generator, tmp_path):
    numbers = {"kind": "integer", "bounds": [0, 3000]}
    columns = {**COLUMNS, "stay": numbers, "marked": {**numbers, "bins": [5, 10, 100]}}
    stay = np.random.default_rng(0).integers(1, 10, 1000)
    declared = schema(columns=columns)
    release = fit(generator, records().assign(stay=stay, marked=stay), declared, invalid="clamp")
    assert release.statement.lost.wide == ("stay",)
    assert any("Bounds far wider" in line and "stay" in line for line in sentences(release.statement))
    assert load(release.save(tmp_path / "release")).statement.lost == release.statement.lost


def test_no_empty_bin_that_noise_lifts_hides_wide_bounds():
    """31 empty bins, of which one passed three deviations in every 24th fit. The rehearsed noise is that of 2,000 fits."""
    codec = Codec(schema(columns={**COLUMNS, "stay": {"kind": "integer", "bounds": [0, 3000]}}))
    column = codec.schema.column("stay")
    counts = np.zeros(codec.sizes[codec.names.index("stay")])
    counts[0] = 1000
    noise = np.random.default_rng(5).normal(0, 2, (2000, len(counts)))

    def wide(cells):
        groups = (np.arange(len(cells)),)
        answer = marginal_tables.Answer(names=("stay",), groups=groups, cells=cells, deviation=2.0)
        return marginal_tables._is_wide(answer, column, codec)

    assert len(counts) == 32
    assert all(wide(counts + each) for each in noise)
    counts[:] = 1000 / len(counts)
    assert not any(wide(counts + each) for each in noise), "all bins hold somebody"


@pytest.mark.heavy
@pytest.mark.parametrize("generator", ["independent", "mst", "mixture"])
def test_tables_are_what_was_asked_with_the_deviation_of_its_noise(generator, tmp_path):
    release = fit(generator, invalid="clamp", answers=True, seed=1)
    loaded = load(release.save(tmp_path / "release"))
    for way, table in release.tables().items():
        pd.testing.assert_frame_equal(table, loaded.tables()[way], check_dtype=False)
        texts = dict.fromkeys([name for name in table if name.startswith("value")], str)  # true is a text there
        written = pd.read_csv(tmp_path / "release" / "tables" / f"{way}.csv", dtype=texts)
        pd.testing.assert_frame_equal(table, written, check_dtype=False)
    asked = [each for each in release.statement.counted for _ in each.tables]
    for table in release.tables().values():
        for place, part in table.groupby("table"):
            np.testing.assert_allclose(part["standard_error"], asked[place].deviation(release.schema))
    codes = release.tables()["one_way"].query("column == 'code'")
    apart = (codes["count"] - codes["model"]) / codes["standard_error"].clip(lower=10)
    assert apart.abs().max() < 5, "the model agrees with what it was told"
    values = set(release.tables()["one_way"].query("column == 'day'")["value"])
    assert "missing" in values
    assert any(value.startswith("[2020-01-01, ") for value in values)


@pytest.mark.parametrize(
    ("encoding", "separator", "decimal"), [("utf-8-sig", ";", ","), ("cp1252", ",", "."), ("utf-16", "\t", ".")]
)
def test_tables_are_written_as_the_files_are(tmp_path, encoding, separator, decimal):
    columns = {**COLUMNS, "code": {"kind": "categorical", "categories": ["\u00e4", "=b", "rest"], "other": "rest"}}
    reading = {"encoding": encoding, "separator": separator, "decimal": decimal}
    release = fit(declared=schema(columns=columns, reading=reading), invalid="clamp", answers=True)
    folder = release.save(tmp_path / "release")
    path = folder / "tables" / "one_way.csv"
    found = pd.read_csv(path, sep=separator, decimal=decimal, encoding=encoding)
    table = release.tables()["one_way"]
    np.testing.assert_allclose(found["count"], table["count"])
    assert set(found.query("column == 'code'")["value"]) == {"\u00e4", "'=b", "rest"}
    assert load(folder).tables().keys() == release.tables().keys()
    text = path.read_bytes().replace("rest".encode(encoding.removesuffix("-sig")[:6]), b"r", 1)
    forged = text if encoding != "utf-16" else path.read_bytes()[:-40]
    path.write_bytes(forged)
    reseal(folder)
    with pytest.raises(BadInput, match=r"one_way.csv"):
        load(folder)


def test_tied_columns_are_told_by_what_they_stand_for():
    rules = [{"if": {"ill": False}, "then": {"code": ["a", "b"]}}]
    tables = fit(declared=schema(rules=rules), invalid="clamp", answers=True).tables()["one_way"]
    values = tables[tables["column"].str.contains(r"\+")]["value"]
    assert set(values) == {f"code: {c}, ill: {i}" for c, i in [("a", False), ("b", False)]} | {
        f"code: {c}, ill: True" for c in ("a", "b", "rest")
    }


@pytest.fixture
def released(tmp_path):
    return fit(invalid="clamp", answers=True).save(tmp_path / "release")


def test_a_release_binds_its_tables_and_checks_them(released, tmp_path, monkeypatch):
    path = released / "tables" / "one_way.parquet"
    assert verify(released).claimed["answers"]

    def forged(change):
        folder = shutil.copytree(released, tmp_path / "forged", dirs_exist_ok=True)
        change(folder / "tables" / path.name)
        return folder

    def edited(**values):
        def change(place):
            pd.read_parquet(path).assign(**values).to_parquet(place, index=False)

        return change

    with pytest.raises(BadInput, match=r"'tables/one_way\.parquet' is not the file that manifest\.json lists"):
        load(forged(edited(count=1.0)))
    for values in ({"standard_error": 1e-3}, {"column": "ill"}, {"table": 99}, {"extra": 1}, {"count": np.nan}):
        folder = forged(edited(**values))
        reseal(folder)
        with pytest.raises(BadInput, match=r"one_way\.parquet: "):
            load(folder)

    for name, text in (("one_way.csv", "name\nMeier\n"), ("patients.csv", "name\nMeier\n")):
        folder = forged(lambda place: shutil.copy(path, place))
        (folder / "tables" / name).write_text(text)
        reseal(folder)
        with pytest.raises(BadInput, match="does not hold"):
            load(folder)
        if name != "one_way.csv":
            (folder / "tables" / name).unlink()
        shutil.copy(released / "tables" / "one_way.csv", folder / "tables")

    def bomb(place):
        part = pd.read_parquet(path)
        pd.concat([part.iloc[:1]] * 40).to_parquet(place, index=False)

    folder = forged(bomb)
    reseal(folder)
    monkeypatch.setattr(released_tables.limits, "FREE", 0)
    monkeypatch.setattr(released_tables.limits, "RATIO", 0.1)
    with pytest.raises(BadInput, match="would unpack to over"):
        load(folder)
    monkeypatch.undo()
    folder = forged(lambda place: place.write_bytes(b"PAR1"))
    reseal(folder)
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        load(folder)
    shutil.rmtree(folder / "tables")
    reseal(folder)
    with pytest.raises(BadInput, match="field answers does not match the folder"):
        load(folder)


def test_a_folder_that_is_no_release_s_own_is_refused(released, tmp_path):
    (released / "tables" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"'tables/notes\.txt' is not listed"):
        load(released)
    with pytest.raises(BadInput, match=r"'tables/notes\.txt' is not part of a release"):
        fit().save(released, force=True)
    (released / "tables" / "notes.txt").unlink()
    shutil.move(released / "tables", tmp_path / "elsewhere")
    (released / "tables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="'tables' is a folder or a link"):
        load(released)


def test_what_has_no_tables_is_refused_before_a_record_is_read():
    with pytest.raises(BadInput, match="dpgan learns from other answers"):
        Synthesizer(quick("dpgan"), schema=make_schema(), budget=BUDGET).fit(None, answers=True)
    with pytest.raises(BadInput, match="pictures"):
        Synthesizer("independent", schema=picture_schema(), budget=BUDGET).fit(None, answers=True)
    with pytest.raises(BadInput, match=r"keeps them with answers=true \(in Python answers=True\)"):
        fit().tables()


@pytest.mark.parametrize(
    ("generator", "most", "apart"), [("mixture", 2, True), ("mixture", 1, False), heavy(("histories", 2, False))]
)
def test_records_of_one_patient_that_a_model_draws_apart_are_said_to_be_so(generator, most, apart, tmp_path):
    """Of one record of each patient the cap says all there is; histories keeps several together."""
    declared = make_schema(**{**ORDERED, "max_records_per_unit": most})
    release = fit(generator, make_frame(300, repeats=2), declared, seed=1)
    said = [line for line in sentences(release.statement) if "a patient of its own" in line]
    assert bool(said) == release.statement.lost.unlinked == apart
    assert all("generator=histories" in line and "it needs order: in the schema" in line for line in said)
    assert load(release.save(tmp_path / "release")).statement.lost == release.statement.lost


def test_the_command_line_says_what_was_lost_and_writes_the_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    schema(unit=None).save("schema.yaml")
    records().to_csv("a.csv", index=False)
    words = ["fit", "data.path=a.csv", "data.schema=schema.yaml", "out=run", "budget.epsilon=20", "budget.delta=1e-5"]
    assert run([*words, "generator=independent", "invalid=clamp", "answers=true"]) == 0
    said = capsys.readouterr().out
    assert "lost       In the category for all others, whether merged into it or recorded so: code " in said
    assert "lost       Known only by themselves" in said
    assert "lost       Cells that break the schema may have been changed" in said
    assert "tables     run/release/tables" in said
    files = json.loads((tmp_path / "run/release/manifest.json").read_text())["files"]
    assert {"tables/one_way.csv", "tables/one_way.parquet"} <= set(files)
    assert run([*words, "force=true", "select=private", "candidates=[independent]", "answers=true"]) == 2
    assert "select=private hides the answers of its fits" in capsys.readouterr().err


@pytest.mark.parametrize("generator", ["independent", "mixture"])
def test_all_that_is_said_follows_from_noisy_answers(generator):
    """Replay (law 12): the answers of a fit are fed to one of other records, and the same is said of both."""

    def told(frame, of=None):
        recorder, noisy = Recorder(of=of), marginal_tables.NoisyTables()
        data = Sensitive(frame, schema(), Account(BUDGET), seed=1, recorder=recorder, listener=noisy)
        model = quick(generator).fit(data, seed=1)
        lost = marginal_tables.lost(noisy, model, data.fine, counts=True, clamped=True, seed=1)
        return lost, released_tables.frames(noisy, model, data.fine, seed=1), noisy.counted(data.fine), recorder

    lost, tables, counted, recorder = told(records())
    other = records(900).assign(code="z", weight=-5.0)
    again, same, asked, _ = told(other, recorder)
    assert again == lost
    assert asked == counted
    for way, table in tables.items():
        pd.testing.assert_frame_equal(table, same[way])


CODES = {
    **{
        name: {"kind": "categorical", "categories": list("abcdefghijklmnopqrst")}
        for name in ("drug", "disease", "town")
    },
    **{name: {"kind": "boolean"} for name in ("ill", "old")},
    "age": {"kind": "integer", "bounds": [0, 99], "bins": 10},
}


def of_codes(rows=1000):
    rng = np.random.default_rng(5)
    codes = {name: rng.choice(list("abcdefghijklmnopqrst"), rows) for name in ("drug", "town")}
    flags = {name: rng.random(rows) < 0.5 for name in ("ill", "old")}
    return pd.DataFrame({**codes, "disease": codes["drug"], **flags, "age": rng.integers(0, 100, rows)})


@pytest.mark.parametrize(
    ("generator", "epsilon", "units", "hidden"),
    [("mixture", 1, 1000, True), ("mst", 1, 1000, True), ("mixture", 1, None, False), ("mixture", 1e4, 1000, False)],
)
def test_the_statement_names_the_pairs_of_columns_that_noise_hides(tmp_path, generator, epsilon, units, hidden):
    """A drug that goes with one disease: 1,000 patients in 400 cells. A newcomer's page named no such pair, though `plan` counted them."""
    declared, budget = schema(columns=CODES, units=units), Budget(epsilon, 1e-5)
    release = Synthesizer(quick(generator), schema=declared, budget=budget).fit(of_codes(), seed=1)
    found = release.statement.lost.pairs
    said = [line for line in brief(release.statement) if "pairs of columns go together" in line]
    assert len(said) == hidden == (found is not None)
    assert load(release.save(tmp_path / "release")).statement.lost == release.statement.lost
    verify(tmp_path / "release")
    if found is None:
        return
    assert found.number <= found.counted <= 15
    assert any({*pair} <= {"drug", "disease", "town"} for pair in found.named)
    assert ("ill", "old") not in found.named, "250 patients in a cell"
    assert f"lost       Noise is likely to hide how {found.number} of {found.counted} pairs" in said[0]
    assert all(f"{one} and {other}" in said[0] for one, other in found.named)
    counted = release.statement.counted
    assert release.statement.lost.matches(release.schema, counted, clamped=False)
    others = replace(release.statement.lost, pairs=HiddenPairs(counted=15, number=1, named=(("drug", "nothing"),)))
    assert not others.matches(release.schema, counted, clamped=False)
    single = [replace(each, tables=(("drug",), ("town",))) for each in counted]
    assert not replace(release.statement.lost, alone=()).matches(release.schema, single, clamped=False)


def test_a_pair_is_hidden_by_its_clearest_table():
    """An average cell of drug and town holds 2.5 of 1,000 patients, one of drug and ill holds 25."""
    declared = schema(columns=CODES)
    codec = Codec(declared)
    places = {name: codec.names.index(name) for name in CODES}

    def asked(noise, *names, halves=()):
        groups = [
            np.arange(size) % 2 if name in halves else None for name, size in zip(CODES, codec.sizes, strict=True)
        ]
        clique = tuple(sorted(places[name] for name in names))
        return Marginals(cliques=(clique,), sizes=codec.sizes, max_records=1, noise=noise, groups=tuple(groups))

    def hidden(*questions):
        found = marginal_tables.hidden_pairs(questions, declared)
        return None if found is None else found.named

    pair = asked(2.0, "drug", "town")
    assert hidden(pair) == (("drug", "town"),)
    assert hidden(asked(50.0, "age", "town"), pair) == (("drug", "town"), ("town", "age")), "that of most cells first"
    assert hidden(pair, asked(1.2, "drug", "town")) is None, "it was asked again with less noise"
    assert hidden(pair, asked(0.01, "drug", "town", halves=("drug",))) == (("drug", "town"),), (
        "halves tell little of a code"
    )
    assert hidden(asked(8.0, "drug", "ill"), pair) == (("drug", "town"),)
    assert hidden(asked(13.0, "age", "ill", "old")) is None, (
        "25 in a cell, but 50 in one of age and ill, with root 2 times the noise"
    )
