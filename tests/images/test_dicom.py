"""DICOM series: pixels and declared tags, and nothing else of the headers."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import said

from synthdp import Budget, Synthesizer
from synthdp.errors import BadInput
from synthdp.images import dicom, picture_draft
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.sets.draft import draft
from synthdp.sets.split import split

pydicom = pytest.importorskip("pydicom", reason="DICOM comes with the extra `dicom`")
EXPLICIT, RLE = "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.5"
CANARY = "CANARY"


def schema_of(columns=None, unit="PatientID", **image):
    values = {"kind": "image", "height": 8, "width": 8, "window": [-100, 300], **image}
    names = {"PatientID": {"kind": "identifier"}, "PatientSex": {"kind": "categorical", "categories": ["F", "M"]}}
    return Schema.from_dict(
        {
            "declared_by": "us",
            "unit": unit,
            "max_records_per_unit": 1,
            "units": 40,
            "columns": {"image": values, **(names if columns is None else columns)},
        }
    )


def series(where, count=3, syntax=EXPLICIT, **tags):
    """Files 0.dcm, 1.dcm, ... of 12-bit CT slices, with names and institutions in their headers; `tags` go into each (None: out)."""
    where.mkdir(exist_ok=True)
    for number in range(count):
        data = pydicom.Dataset()
        data.file_meta = pydicom.dataset.FileMetaDataset()
        data.file_meta.TransferSyntaxUID = EXPLICIT
        data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
        data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = f"1.2.3.{number}"
        data.PatientName, data.InstitutionName = f"{CANARY}^ANNA", f"{CANARY} hospital"
        data.PatientID, data.PatientSex, data.StudyDate = f"p{number // 2}", "FM"[number % 2], "20200131"
        data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
        data.Rows = data.Columns = 8
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 12, 11, 0
        data.RescaleSlope, data.RescaleIntercept = "2", "-1024"
        data.PixelData = stored(number).tobytes()
        data.add_new(0x00091001, "LO", CANARY)
        for keyword, value in tags.items():
            if value is None:
                delattr(data, keyword)
            else:
                setattr(data, keyword, value)
        if syntax == RLE:
            data.compress(RLE)
        data.save_as(where / f"{number}.dcm", enforce_file_format=True)
    return where


def stored(number):
    return np.random.default_rng(number).integers(0, 700, (8, 8), dtype=np.uint16)


def windowed(number):
    return np.rint(np.clip((stored(number) * 2.0 - 1024 + 100) / 400, 0, 1) * 255).astype(np.uint8)


@pytest.mark.parametrize("syntax", [EXPLICIT, RLE])
def test_pixels_are_rescaled_and_windowed(tmp_path, syntax):
    back = record_files.read(series(tmp_path / "ct", syntax=syntax), schema_of())
    for number in range(3):
        np.testing.assert_array_equal(back["image"][number], windowed(number))
    assert back["PatientID"].tolist() == ["p0", "p0", "p1"]
    assert back["PatientSex"].tolist() == ["F", "M", "F"]
    schema_of().validate(back)


def test_monochrome1_is_turned_round(tmp_path):
    back = record_files.read(series(tmp_path / "cr", PhotometricInterpretation="MONOCHROME1"), schema_of())
    np.testing.assert_array_equal(back["image"][0], 255 - windowed(0))


def test_signed_values_without_a_rescale(tmp_path):
    values = np.arange(-32, 32, dtype=np.int16).reshape(8, 8) * 10
    tags = {"PixelRepresentation": 1, "BitsStored": 16, "HighBit": 15, "RescaleSlope": None, "RescaleIntercept": None}
    back = record_files.read(series(tmp_path / "mr", PixelData=values.tobytes(), **tags), schema_of())
    np.testing.assert_array_equal(back["image"][0], np.rint(np.clip((values + 100) / 400, 0, 1) * 255))


def test_colour_needs_no_window(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    tags = {
        "SamplesPerPixel": 3, "PhotometricInterpretation": "RGB", "PlanarConfiguration": 0, "BitsAllocated": 8, "BitsStored": 8,
        "HighBit": 7, "PixelData": colour.tobytes(),
    }  # fmt: skip
    where = series(tmp_path / "us", **tags)
    back = record_files.read(where, schema_of(window=None, channels=3))
    np.testing.assert_array_equal(back["image"][0], colour)
    assert "3 channels, but the schema declares 1" in said(record_files.read, where, schema_of())


def test_a_list_goes_before_the_headers(tmp_path):
    where = series(tmp_path / "ct")
    (where / "labels.csv").write_text("file,PatientSex,finding\n2.dcm,M,left\n0.dcm,M,none\n1.dcm,F,left\n")
    finding = {"kind": "categorical", "categories": ["none", "left"]}
    columns = {"PatientID": {"kind": "identifier"}, "PatientSex": {"kind": "categorical", "categories": ["F", "M"]}}
    schema = schema_of({**columns, "finding": finding})
    back = record_files.read(where, schema)
    schema.validate(back)
    assert back["PatientID"].tolist() == ["p1", "p0", "p0"]
    assert back["PatientSex"].tolist() == ["M", "M", "F"]
    assert back["finding"].tolist() == ["left", "none", "left"]
    np.testing.assert_array_equal(back["image"][0], windowed(2))


def test_numbers_and_dates_of_headers(tmp_path):
    columns = {
        "PatientWeight": {"kind": "continuous", "bounds": [0, 200], "missing": True},
        "SeriesNumber": {"kind": "integer", "bounds": [0, 9]},
        "StudyDate": {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"]},
        "SliceThickness": {"kind": "continuous", "bounds": [0, 9], "missing": True},
        "BodyPartExamined": {"kind": "categorical", "categories": ["CHEST"], "missing": True},
    }
    schema = schema_of(columns, unit=None)
    back = record_files.read(series(tmp_path / "ct", PatientWeight="70.5", SeriesNumber="3", SliceThickness=""), schema)
    schema.validate(back)
    assert back["PatientWeight"].tolist() == [70.5] * 3
    assert back["SeriesNumber"].tolist() == [3] * 3
    assert back["SliceThickness"].isna().all()
    assert back["BodyPartExamined"].isna().all()
    assert pd.to_datetime(back["StudyDate"]).tolist() == [pd.Timestamp("2020-01-31")] * 3
    assert Codec(schema).encode(back).shape == (3, 64 + 5)


def test_missing_and_unknown_labels_are_the_pre_checks(tmp_path):
    back = record_files.read(series(tmp_path / "ct", PatientSex=CANARY, PatientID=None), schema_of())
    message = said(schema_of().validate, back)
    assert "some values are missing in the unit column" in message
    assert "some values are not one of the declared categories" in message


def test_headers_never_reach_the_output(tmp_path):
    where = series(tmp_path / "ct", 40, PatientComments=CANARY)
    assert CANARY.encode() in (where / "0.dcm").read_bytes()
    schema = schema_of()
    frame = record_files.read(where, schema)
    assert CANARY not in frame.drop(columns="image").to_csv()
    release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(frame, seed=0)
    release.save(tmp_path / "release")
    for name in ("out.npz", "out"):
        record_files.write([frame], tmp_path / f"real {name}".replace(" ", "-"), schema)
        record_files.write([release.sample(20, seed=1)], tmp_path / name, release.schema)
    (where / "0.dcm").unlink()
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".dcm"]
    assert len(written) > 40
    assert not any(
        secret in path.read_bytes() for path in written for secret in (CANARY.encode(), b"ANNA", b"20200131")
    )


@pytest.mark.parametrize(
    ("tags", "image", "says"),
    [
        ({"PixelData": None}, {}, "has no pixel data"),
        ({"NumberOfFrames": "2"}, {}, "several frames"),
        ({}, {"window": None}, "need window: [low, high] for column 'image'"),
        ({"Rows": 7, "PixelData": bytes(112)}, {}, "7 x 8 pixels, but the schema declares 8 x 8; resize: fit"),
        ({"Rows": 60_000, "Columns": 60_000}, {"resize": "fit"}, "60000 x 60000 pixels; from 1 to"),
        ({"PixelData": bytes(100)}, {}, "pixel data cannot be read"),
        ({"BitsStored": None}, {}, "pixel data cannot be read"),
        ({"Rows": None}, {}, "pixel data cannot be read"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, {}, "neither grey nor plain colour"),
        ({"ModalityLUTSequence": []}, {}, "look-up table"),
    ],
)
def test_files_that_do_not_fit(tmp_path, tags, image, says):
    message = said(record_files.read, series(tmp_path / "ct", 1, **tags), schema_of(**image))
    assert "0.dcm" in message
    assert says in message


def test_columns_that_no_header_has(tmp_path):
    where = series(tmp_path / "ct", 1, ImageType=["ORIGINAL", CANARY])
    for name, says in (
        ("finding", "'finding' is neither in labels.csv nor the keyword"),
        ("PixelData", "'PixelData' is neither in labels.csv nor the keyword"),
        ("ModalityLUTSequence", "nor the keyword"),
        ("ImageType", "0.dcm: ImageType has several values"),
    ):
        schema = schema_of({name: {"kind": "categorical", "categories": ["a"]}}, unit=None)
        assert says in said(record_files.read, where, schema)


def test_files_that_are_no_dicom(tmp_path):
    where = series(tmp_path / "ct", 1)
    whole = (where / "0.dcm").read_bytes()
    for content in (b"", CANARY.encode() * 99, whole[:100], whole[:300], whole[:-20], whole[132:]):
        (where / "0.dcm").write_bytes(content)
        assert "0.dcm" in said(record_files.read, where, schema_of())


def test_deflated_files_are_refused(tmp_path):
    where = series(tmp_path / "ct", 1)
    data = pydicom.dcmread(where / "0.dcm")
    data.file_meta.TransferSyntaxUID = dicom.DEFLATED
    data.save_as(where / "0.dcm")
    assert "deflated" in said(record_files.read, where, schema_of())


def test_every_odd_file_that_pydicom_brings_is_read_or_refused():
    samples = Path(pydicom.__file__).parent / "data"
    files = [
        path for path in sorted(samples.rglob("*")) if path.is_file() and path.suffix not in (".py", ".pyc", ".json")
    ]
    column = Image(name="image", height=8, width=8, window=(0, 255), resize="fit")
    read, refused = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in files:
            try:
                picture, tags = dicom.read(path, column, ("PatientID", "StudyDate"))
            except BadInput as error:
                refused.append((path, str(error)))
                continue
            read.append(path.name)
            assert picture.shape == (8, 8)
            assert set(tags) == {"PatientID", "StudyDate"}
    assert "CT_small.dcm" in read
    assert all(str(path) in message and "\n" not in message for path, message in refused)


@pytest.mark.parametrize("syntax", [EXPLICIT, RLE])
def test_damaged_files_are_read_or_refused(tmp_path, syntax):
    where, rng, outcomes = series(tmp_path / "ct", 1, syntax=syntax), np.random.default_rng(5), []
    whole = (where / "0.dcm").read_bytes()
    for _ in range(60):
        content = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            content[place] = rng.integers(256)
        (where / "0.dcm").write_bytes(content[: rng.integers(100, 2 * len(whole))])
        for call, argument in ((record_files.read, [where, schema_of()]), (picture_draft.drafted, [where])):
            try:
                outcomes.append(len(call(*argument)))
            except BadInput as error:
                outcomes.append(str(error))
    refused = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(refused) > 12
    assert all("0.dcm" in message and "\n" not in message for message in refused)


def test_without_the_extra_its_name_is_told(tmp_path, monkeypatch):
    where = series(tmp_path / "ct", 1)
    for name in [name for name in sys.modules if name.split(".")[0] == "pydicom"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install synthdp[dicom]" in said(record_files.read, where, schema_of())


def test_a_draft_names_the_window_and_the_tags(tmp_path):
    where = series(tmp_path / "ct")
    text, looked = draft(*picture_draft.drafted(where))
    assert "PatientID" in text
    schema, seen = (Schema.from_dict(yamlfile.parse(each, "draft")) for each in (text, looked))
    assert "declare window" in said(record_files.read, where, schema) or "need window" in said(
        record_files.read, where, schema
    )
    low, high = seen.image.window
    values = np.stack([stored(number) for number in range(3)]) * 2.0 - 1024
    assert low <= values.min()
    assert high >= values.max()
    assert record_files.read(where, seen)["image"][0].shape == (8, 8)
    assert CANARY not in text + looked
    assert "rescaled intensities (in CT, Hounsfield units)" in text


def test_files_whose_names_do_not_say_that_they_are_dicom_are_told(tmp_path):
    where = series(tmp_path / "ct")
    (where / "2.dcm").rename(where / "IM2")
    (where / "DICOMDIR").write_bytes((where / "IM2").read_bytes())
    (where / "notes.txt").write_text("a note")
    with pytest.warns(
        UserWarning, match="some files are left out; there are DICOM files whose names do not end in .dcm: rename"
    ):
        assert len(record_files.read(where, schema_of())) == 2
    for name in ("0.dcm", "1.dcm"):
        (where / name).unlink()
    assert "do not end in .dcm: rename them" in said(record_files.read, where, schema_of())
    assert "do not end in .dcm: rename them" in said(picture_draft.drafted, where)
    (where / "IM2").unlink()
    assert ".dcm: rename" not in said(record_files.read, where, schema_of())


def test_a_series_with_dates_is_split(tmp_path):
    columns = {
        "PatientID": {"kind": "identifier"},
        "StudyDate": {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"], "missing": True},
    }
    schema, where = schema_of(columns), series(tmp_path / "ct", 40)
    series(where, 2, StudyDate="")
    parts = split(where, schema, share=0.3, out=tmp_path / "parts", key=tmp_path / "key")
    frames = [record_files.read(part, record_files.as_written(schema)) for part in parts]
    assert sum(map(len, frames)) == 40
    dates = pd.concat([frame["StudyDate"] for frame in frames])
    assert dates.isna().sum() == 2
    assert set(dates.dropna()) == {pd.Timestamp("2020-01-31")}
