"""`synthdp pate`: from two files to a student that may leave, labelled public records, and an account that knows of it."""

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame
from sweeps import heavy

from synthdp.cli import run
from synthdp.ledger.ledger import Ledger
from synthdp.pate import load

SCHEMA = """
name: clinic
declared_by: the tests
units: 400
max_records_per_unit: 1
unit: patient
targets: [ill]
columns:
  patient: {kind: identifier}
  age: {kind: integer, bounds: [0, 99], bins: [20, 40, 60, 80]}
  sex: {kind: categorical, categories: [female, male]}
  note: {kind: ignore}
  ill: {kind: boolean}
reading:
  columns: {ill: {words: [N, J]}}
"""
QUICK = ("teachers=6", "queries=20", "teacher=network", "budget.epsilon=4")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    columns = ["patient", "age", "sex", "ill"]
    records = make_frame(400, seed=1)[columns]
    records.assign(ill=records.ill.map({True: "J", False: "N"})).to_csv(tmp_path / "records.csv", index=False)
    public = make_frame(90, seed=2)[["age", "sex"]].assign(note="free text")
    public.to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def words(files, *others, public="public.csv"):
    named = (f"data.path={files / 'records.csv'}", f"data.schema={files / 'schema.yaml'}", f"public={files / public}")
    return ["pate", *named, f"out={files / 'out'}", *QUICK, *others]


def test_a_student_labelled_records_and_a_charged_account(files, output_of):
    said = output_of(*words(files)).out
    assert "guarantee  epsilon" in said
    assert "teachers   6, each learns from about 66 of the 400 declared units" in said
    assert "by 1 fit" in said
    student = load(files / "out" / "release")
    labelled = pd.read_csv(files / "out" / "labelled.csv")
    public = pd.read_csv(files / "public.csv")
    assert list(labelled) == ["age", "sex", "ill"]
    assert labelled[["age", "sex"]].equals(public[["age", "sex"]])
    assert (labelled.ill == np.where(student.predict(public), "J", "N")).all()  # in the words of the schema
    assert "90 public records, without 'patient', 'note'" in said
    assert student.statement.epsilon <= 4
    assert len(Ledger.read(files / "out" / "internal" / "ledger.jsonl").entries()) >= 1
    assert run(["verify", f"release={files / 'out' / 'release'}"]) == 0
    assert run(["report", f"release={files / 'out' / 'release'}", f"out={files / 'page'}"]) == 0
    page = (files / "page" / "statement.html").read_text()
    assert "a classifier that learned from public records" in page
    assert "synthetic data made from" not in page
    assert "any number of rows" not in page


@pytest.mark.heavy
def test_identifiers_of_public_records_are_left_aside_and_errors_name_the_file(files, output_of):
    make_frame(90, seed=2)[["patient", "age", "sex"]].to_csv(files / "named.csv", index=False)
    assert run(words(files, public="named.csv")) == 0
    make_frame(90, seed=2)[["age"]].to_csv(files / "short.csv", index=False)
    assert f"public={files / 'short.csv'}" in output_of(*words(files, "force=true", public="short.csv"), status=2).err


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (("queries=91",), "90"),
        heavy((("aggregator=gnmax", "distillation=true"), "distillation")),
        (("data.target=age",), "age"),
        heavy((("data.target=nosuch",), "nosuch")),
        heavy((("teachers=0",), "teachers")),
        heavy((("teacher=tree",), "teacher")),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_anything_is_charged(files, output_of, others, said):
    assert said in output_of(*words(files, *others), status=2).err
    assert not (files / "records.csv.account").exists()
    assert not (files / "out" / "internal").exists()


def test_labels_in_the_public_file_are_refused_not_ignored(files, output_of):
    make_frame(90, seed=2)[["age", "sex", "ill"]].to_csv(files / "known.csv", index=False)
    said = output_of(*words(files, public="known.csv"), status=2).err
    assert "public=" in said
    assert "'ill'" in said
    assert "Drop the column only if these records need no protection" in said


def test_the_schema_must_name_one_target(files, output_of):
    (files / "schema.yaml").write_text(SCHEMA.replace("targets: [ill]\n", ""))
    assert "data.target=COLUMN" in output_of(*words(files), status=2).err


@pytest.mark.heavy
def test_a_fit_that_is_stopped_says_what_it_cost(files, output_of, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("synthdp.pate.one_fit.Run.classifier", stopped)
    caught = output_of(*words(files), status=130)
    assert "charged so far" in caught.err
    assert "starts anew" in caught.err
    assert "resume" not in caught.err
    assert (files / "out" / "internal" / "ledger.new.jsonl").exists()
    assert not (files / "out" / "release").exists()


@pytest.mark.heavy
def test_an_edit_after_a_look_and_facts_read_off_records_are_said(files, output_of):
    data = (f"data.path={files / 'records.csv'}", f"data.schema={files / 'schema.yaml'}")
    assert run(["check", *data]) == 0
    text = (files / "schema.yaml").read_text()
    (files / "schema.yaml").write_text(text.replace("bounds: [0, 99]", "bounds: [0, 120], observed: true"))
    said = output_of(*words(files)).err
    assert "warning: The public facts of the schema were edited" in said
    assert "were read off the records" in said
    statement = load(files / "out" / "release").statement
    assert statement.declared["edited_after"]
    assert run(["verify", f"release={files / 'out' / 'release'}"]) == 0


PICTURES = """
name: squares
declared_by: the tests
units: 300
targets: [place]
columns:
  image: {kind: image, height: 8, width: 8}
  place: {kind: categorical, categories: [left, right]}
"""


def squares(rows, seed):
    """Pictures with a bright square on one side, and which side that is."""
    rng = np.random.default_rng(seed)
    left, image = rng.random(rows) < 0.5, rng.integers(0, 60, (rows, 8, 8)).astype(np.uint8)
    for place, down in enumerate(rng.integers(0, 5, rows)):
        image[place, down : down + 3, slice(0, 3) if left[place] else slice(5, 8)] += 150
    return image, np.where(left, "left", "right")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["convolutional", "network"])
def test_pictures_are_labelled_by_networks_that_see_them(kind, tmp_path, capsys):
    (tmp_path / "schema.yaml").write_text(PICTURES)
    image, place = squares(300, 1)
    np.savez(tmp_path / "records.npz", image=image, place=place)
    public, truth = squares(120, 2)
    np.savez(tmp_path / "public.npz", image=public)
    named = (
        f"data.path={tmp_path / 'records.npz'}",
        f"data.schema={tmp_path / 'schema.yaml'}",
        f"public={tmp_path / 'public.npz'}",
    )
    ways = (f"teacher={kind}", f"student={kind}", "teachers=5", "queries=60", "budget.epsilon=200", "seed=1")
    assert run(["pate", *named, f"out={tmp_path / 'out'}", *ways]) == 0, capsys.readouterr().err
    with np.load(tmp_path / "out" / "labelled.npz") as held:
        assert (held["image"] == public).all()
        assert (held["place"] == truth).mean() > 0.9
    student = load(tmp_path / "out" / "release")
    assert student.student.name == "network"
    pixels = student.answers.codes[:, :64]  # then the label's column, of which nothing is known
    assert (pixels == public.reshape(120, -1)[student.answers.places]).all()


@pytest.mark.heavy
def test_convolutions_see_a_picture_and_nothing_else(files, output_of):
    assert "the schema has no image column" in output_of(*words(files, "teacher=convolutional"), status=2).err
    assert not (files / "out" / "internal" / "ledger.jsonl").exists()
