import contextlib
import io
import struct
import warnings
import zipfile
import zlib

import numpy as np
import pandas as pd
import pytest
from clinic import said
from PIL import Image as Pillow

from synthdp.budgets import fingerprint
from synthdp.errors import BadInput
from synthdp.images import npz, picture_draft, picture_folder, pixels
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema
from synthdp.schema.table_review import review
from synthdp.sets import record_files
from synthdp.sets.draft import draft

LABELS = {"finding": {"kind": "categorical", "categories": ["none", "left", "right"]}}


def schema_of(columns=None, **image):
    return Schema.from_dict(
        {
            "columns": {
                "image": {"kind": "image", "height": 4, "width": 6, **image},
                **(LABELS if columns is None else columns),
            }
        }
    )


def frame_of(pictures, **labels):
    cells = np.empty(len(pictures), object)
    for row, picture in enumerate(pictures):
        cells[row] = picture
    return pd.DataFrame({"image": cells, **labels})


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_floats_in_an_archive_name_nobody(tmp_path):
    schema = Schema.from_dict(
        {
            "columns": {
                "image": {"kind": "image", "height": 2, "width": 2},
                "patient": {"kind": "identifier"},
                "code": {"kind": "categorical", "categories": [str(2**24), "5"], "missing": True},
            },
            "unit": "patient",
            "max_records_per_unit": 1,
            "declared_by": "test",
        }
    )
    pictures, codes = np.zeros((3, 2, 2), np.uint8), np.array([2**24, 5, np.nan], np.float32)
    np.savez(tmp_path / "t.npz", image=pictures, patient=1e17 + np.arange(3), code=codes)
    frame = record_files.read(tmp_path / "t.npz", schema)
    assert "'patient' is stored as float64" in said(schema.validate, frame, "clamp")
    np.savez(tmp_path / "t.npz", image=pictures, patient=10**17 + np.arange(3), code=codes)
    frame = record_files.read(tmp_path / "t.npz", schema)
    assert frame["patient"].tolist() == [str(10**17 + place) for place in range(3)]
    assert "'code': some values are not one of the declared" in said(schema.validate, frame)


# Pixels


def test_a_window_maps_linearly_and_cuts_off():
    column = Image(name="image", height=1, width=6, window=(-100, 300))
    found = pixels.prepared(np.array([[-2000, -100, 0, 100, 300, 4000]], np.int16), column, "here")
    assert found.tolist() == [[0, 0, 64, 128, 255, 255]]  # 63.75 and 127.5 are rounded to the nearest, halves to even
    assert found.dtype == np.uint8
    turned = pixels.prepared(np.array([[-2000, -100, 0, 100, 300, 4000]], np.int16), column, "here", inverted=True)
    assert turned.tolist() == [[255, 255, 191, 128, 0, 0]]


def areas(picture, height, width):
    """The average of the covered area, by a grid that both sizes divide."""
    tall, wide = np.lcm(picture.shape[0], height), np.lcm(picture.shape[1], width)
    fine = np.kron(picture.astype(float), np.ones((tall // picture.shape[0], wide // picture.shape[1])))
    return fine.reshape(height, tall // height, width, wide // width).mean(axis=(1, 3))


@pytest.mark.parametrize(("height", "width"), [(4, 6), (5, 7), (12, 18), (9, 11), (1, 1)])
def test_fewer_pixels_are_averages_of_areas(height, width):
    picture = noise(12, 18)
    found = pixels.resized(picture[:, :, None].astype(np.float32), height, width)[:, :, 0]
    np.testing.assert_allclose(found, areas(picture, height, width), rtol=1e-9)


def between(values, size):
    """Linear interpolation between pixel centres along the first axis, the ends held."""
    centres, places = (np.arange(len(values)) + 0.5) / len(values), (np.arange(size) + 0.5) / size
    return np.stack([np.interp(places, centres, column) for column in values.T], axis=1)


def test_more_pixels_are_interpolated():
    picture = noise(3, 4).astype(float)
    expected = between(between(picture, 7).T, 10).T
    found = pixels.resized(picture[:, :, None].astype(np.float32), 7, 10)[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_one_axis_may_grow_while_the_other_shrinks():
    picture = noise(12, 4).astype(float)
    expected = between(areas(picture, 5, 4).T, 9).T
    found = pixels.resized(picture[:, :, None].astype(np.float32), 5, 9)[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_colours_are_resized_alone():
    picture = noise(8, 6, 3)
    column = Image(name="image", height=4, width=3, channels=3, resize="fit")
    found = pixels.prepared(picture, column, "here")
    expected = np.stack([areas(picture[:, :, channel], 4, 3) for channel in range(3)], axis=2)
    assert found.shape == (4, 3, 3)
    assert np.abs(found - expected).max() <= 0.5 + 1e-3


# What is written is read

EVERYTHING = {
    "patient": {"kind": "identifier"},
    "text": {"kind": "categorical", "categories": ["=a", "'=a", "b,\n", "NA", "01"], "missing": True},
    "stage": {"kind": "ordinal", "categories": ["I", "II"]},
    "ill": {"kind": "boolean", "missing": True},
    "old": {"kind": "boolean"},
    "count": {"kind": "integer", "bounds": [0, 5], "missing": True},
    "whole": {"kind": "integer", "bounds": [-3, 3]},
    "dose": {"kind": "continuous", "bounds": [0, 1], "missing": True},
    "seen": {"kind": "datetime", "bounds": ["2020-01-01", "2020-02-01"], "missing": True, "resolution": "second"},
}


@pytest.mark.heavy
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["t.npz", "folder"])
def test_what_was_written_is_read(tmp_path, name, channels):
    schema = schema_of(EVERYTHING, channels=channels)
    codec = Codec(schema)
    codes = np.random.default_rng(1).integers(0, codec.sizes, (300, len(codec.sizes)))
    frame = codec.decode(codes, np.random.default_rng(0))
    assert record_files.write(iter([frame[:100], frame[100:100], frame[100:]]), tmp_path / name, schema) == 300
    back = record_files.read(tmp_path / name, schema)
    schema.validate(back)
    np.testing.assert_array_equal(codec.encode(back), codes)
    assert list(back.columns) == list(schema.names)
    for column in ("patient", "count", "dose", "seen"):
        assert back[column].isna().tolist() == frame[column].isna().tolist()
        assert back[column].dropna().tolist() == frame[column].dropna().tolist()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("name", ["t.npz", "folder"])
def test_no_record_and_one_are_data_too(tmp_path, name, rows):
    schema = schema_of(EVERYTHING)
    codec = Codec(schema)
    frame = codec.decode(np.zeros((rows, len(codec.sizes)), np.uint8), np.random.default_rng(0))
    for chunks in ([frame], []) if rows == 0 else ([frame],):
        assert record_files.write(chunks, tmp_path / name, schema, force=True) == rows
        assert codec.encode(record_files.read(tmp_path / name, schema)).shape == (rows, len(codec.sizes))


def test_pictures_alone_need_no_labels(tmp_path):
    schema, frame = schema_of({}), frame_of(noise(5, 4, 6))
    for name in ("t.npz", "folder"):
        record_files.write([frame], tmp_path / name, schema)
        np.testing.assert_array_equal(np.stack(record_files.read(tmp_path / name, schema)["image"]), noise(5, 4, 6))


def test_the_same_records_give_the_same_bytes(tmp_path):
    frame = frame_of(noise(5, 4, 6), finding=["none"] * 5)
    for name in ("a.npz", "b.npz"):
        record_files.write([frame], tmp_path / name, schema_of())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as held:
        assert {key: held[key].shape for key in held.files} == {"image": (5, 4, 6), "finding": (5,)}


def test_a_window_is_for_raw_records_only(tmp_path):
    schema = schema_of(window=[0, 1000], resize="fit")
    frame = frame_of(noise(5, 4, 6), finding=["none"] * 5)
    for name in ("t.npz", "folder"):
        record_files.write([frame], tmp_path / name, schema)
        back = record_files.read(tmp_path / name, record_files.as_written(schema))
        np.testing.assert_array_equal(np.stack(back["image"]), noise(5, 4, 6))
        told = pytest.warns(UserWarning, match="darker") if name == "folder" else contextlib.nullcontext()
        with told:
            assert np.stack(record_files.read(tmp_path / name, schema)["image"]).max() <= 65


def failing(frame):
    yield frame
    raise RuntimeError("the model broke")


@pytest.mark.parametrize("name", ["t.npz", "folder"])
def test_never_half_written(tmp_path, name):
    frame = frame_of(noise(5, 4, 6), finding=["none"] * 5)
    with pytest.raises(RuntimeError, match="the model broke"):
        record_files.write(failing(frame), tmp_path / name, schema_of())
    assert list(tmp_path.iterdir()) == []
    record_files.write([frame], tmp_path / name, schema_of())
    with pytest.raises(RuntimeError):
        record_files.write(failing(frame), tmp_path / name, schema_of(), force=True)
    assert len(record_files.read(tmp_path / name, schema_of())) == 5
    assert "exists" in said(record_files.write, [frame[:2]], tmp_path / name, schema_of())
    assert len(record_files.read(tmp_path / name, schema_of())) == 5
    record_files.write([frame[:2]], tmp_path / name, schema_of(), force=True)
    assert len(record_files.read(tmp_path / name, schema_of())) == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    frame = frame_of(noise(2, 4, 6), finding=["none"] * 2)
    record_files.write([frame], tmp_path / "out", schema_of())
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    assert "has files that synthdp did not write" in said(record_files.write, [frame], tmp_path / "out", schema_of())
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


def test_pictures_and_tables_do_not_go_into_each_others_files(tmp_path):
    frame = frame_of(noise(2, 4, 6), finding=["none"] * 2)
    table = Schema.from_dict({"columns": LABELS})
    for name in ("t.csv", "t.csv.gz", "t.parquet", "t.txt"):
        assert ".npz" in said(record_files.write, [frame], tmp_path / name, schema_of())
        assert ".npz" in said(record_files.read, tmp_path / name, schema_of())
    for name in ("t.npz", "folder"):
        assert "must end in .csv" in said(record_files.write, [frame], tmp_path / name, table)
    assert list(tmp_path.iterdir()) == []
    record_files.write([frame], tmp_path / "t.npz", schema_of())
    assert "holds pictures" in said(record_files.read, tmp_path / "t.npz", table)
    assert "holds pictures" in said(record_files.read, tmp_path / "t.npz")
    (tmp_path / "ward").mkdir()
    assert "is a folder, which holds pictures" in said(record_files.read, tmp_path / "ward", table)
    assert "no such file or folder" in said(record_files.read, tmp_path / "none", schema_of())
    assert "no such file or folder" in said(record_files.read, tmp_path / "none.npz", schema_of())


@pytest.mark.parametrize("name", ["t.npz", "folder"])
def test_records_that_are_not_the_schemas_are_not_written(tmp_path, name):
    schema = schema_of({"n": {"kind": "integer", "bounds": [0, 9]}})
    for frame in (
        frame_of([np.zeros((3, 3), np.uint8)], n=[1]),
        frame_of(noise(1, 4, 6), n=["CANARY"]),
        frame_of([None], n=[1]),
    ):
        assert "validate" in said(record_files.write, [frame], tmp_path / name, schema)
    assert list(tmp_path.iterdir()) == []


def test_categories_that_npz_cannot_tell_apart(tmp_path):
    for odd in (["", "a"], ["a\0", "a"]):
        schema = schema_of({"c": {"kind": "categorical", "categories": odd, "missing": True}})
        assert "'c'" in said(record_files.write, [], tmp_path / "t.npz", schema)


# .npz


def saved(tmp_path, **arrays):
    np.savez_compressed(
        tmp_path / "t.npz", **{"image": noise(3, 4, 6), "finding": np.array(["none", "left", "none"]), **arrays}
    )
    return tmp_path / "t.npz"


def test_arrays_of_others(tmp_path):
    whole = noise(3, 4, 6, 1)
    for stack in (
        whole,
        np.asfortranarray(whole),
        np.asfortranarray(whole[..., 0]),
        np.ascontiguousarray(whole[::-1])[::-1],
    ):
        back = record_files.read(saved(tmp_path, image=stack), schema_of())
        np.testing.assert_array_equal(np.stack(back["image"]), whole[..., 0])
        back["image"][0][0, 0] = 7  # the frame's own
    deep = (whole[..., 0].astype(">u2") * 257, whole[..., 0] / 255.0, whole[..., 0].astype("<i4") * 3 - 9)
    for stack, window in zip(deep, ([0, 65535], [0, 1], [-9, 756]), strict=True):
        back = record_files.read(saved(tmp_path, image=stack), schema_of(window=window))
        np.testing.assert_array_equal(np.stack(back["image"]), whole[..., 0])


def test_every_block_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "BLOCK", 60)
    back = record_files.read(saved(tmp_path, image=noise(50, 4, 6), finding=np.array(["none"] * 50)), schema_of())
    np.testing.assert_array_equal(np.stack(back["image"]), noise(50, 4, 6))


def test_arrays_are_brought_to_size(tmp_path):
    back = record_files.read(saved(tmp_path, image=noise(3, 8, 12)), schema_of(resize="fit"))
    expected = np.stack([areas(picture, 4, 6) for picture in noise(3, 8, 12)])
    assert np.abs(np.stack(back["image"]) - expected).max() <= 0.5 + 1e-3


@pytest.mark.parametrize(
    ("values", "columns", "expected"),
    [
        (np.array([0, 2, 1], np.uint8), {"kind": "categorical", "categories": ["0", "1", "2"]}, ["0", "2", "1"]),
        (np.array([1.0, np.nan, 2.0]), {"kind": "categorical", "categories": ["1", "2"], "missing": True}, ["1", None, "2"]),
        (np.array(["a", "", "b"]), {"kind": "categorical", "categories": ["a", "b"], "missing": True}, ["a", None, "b"]),
        (np.array(["a", "", "b"]), {"kind": "categorical", "categories": ["a", "b", ""]}, ["a", "", "b"]),
        (np.array([1.0, np.nan, 0.0]), {"kind": "boolean", "missing": True}, [True, None, False]),
        (np.array([1, 0, 1]), {"kind": "boolean"}, [1, 0, 1]),
        (np.array([4.0, np.nan, 5.0]), {"kind": "integer", "bounds": [0, 9], "missing": True}, [4, None, 5]),
        (np.array(["2020-01-02", "", "2020-01-03"]), {"kind": "datetime", "bounds": ["2020-01-01", "2020-02-01"], "missing": True},
         [pd.Timestamp("2020-01-02"), None, pd.Timestamp("2020-01-03")]),
    ],
)  # fmt: skip
def test_labels_of_others(tmp_path, values, columns, expected):
    schema = schema_of({"c": columns})
    path = tmp_path / "t.npz"
    np.savez(path, image=noise(3, 4, 6), c=values)
    back = record_files.read(path, schema)
    schema.validate(back)
    assert [None if pd.isna(cell) else cell for cell in back["c"]] == expected


def test_unknown_and_missing_labels_are_the_pre_checks(tmp_path):
    back = record_files.read(saved(tmp_path, finding=np.array(["none", "CANARY", ""])), schema_of())
    message = said(schema_of().validate, back)
    assert "some values are not one of the declared categories" in message
    assert "some values are missing" in message
    assert Codec(schema_of()).encode(back).shape == (3, 25)


@pytest.mark.parametrize(
    ("arrays", "image", "says"),
    [
        ({"image": noise(3, 5, 6)}, {}, "5 x 6 pixels, but the schema declares 4 x 6; resize: fit"),
        ({"image": noise(3, 4, 6, 3)}, {}, "3 channels, but the schema declares 1"),
        ({"image": noise(3, 4, 6)}, {"channels": 3}, "1 channels, but the schema declares 3"),
        ({"image": noise(3, 24)}, {}, "expected (n, height, width)"),
        ({"image": noise(3, 4, 6).astype(np.uint16)}, {}, "uint16 values, not 8 bits; declare window"),
        ({"image": np.full((3, 4, 6), np.nan)}, {"window": [0, 1]}, "NaN"),
        ({"image": noise(3, 4, 6).astype(complex)}, {"window": [0, 1]}, "numbers, text or dates"),
        ({"image": np.full((3, 4, 6), "CANARY")}, {"window": [0, 1]}, "not real numbers"),
        (
            {"finding": np.array(["none"] * 4)},
            {},
            "arrays 'image' and 'finding' have different lengths; every record needs a value in each",
        ),
        ({"finding": np.full((3, 1), "none")}, {}, "array 'finding' has 2 dimensions, expected one"),
        ({"finding": np.array("none")}, {}, "'finding'"),
        ({"finding": np.array(["none", "CANARY", None], object)}, {}, "never objects"),
        ({"extra": np.zeros(3)}, {}, "arrays that the schema does not know: 'extra'"),
        ({"image": np.zeros((3, 0, 6), np.uint8)}, {}, "0 x 6 pixels"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, image, says):
    message = said(record_files.read, saved(tmp_path, **arrays), schema_of(**image))
    assert "t.npz" in message
    assert says in message


def packed(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(f"{name}.npy", content)
    return path


def npy(values, header=None):
    content = io.BytesIO()
    np.save(content, values, allow_pickle=True)
    if header is None:
        return content.getvalue()
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


class Trap:
    """Unpickling it says so."""

    def __reduce__(self):
        return warnings.warn, ("unpickled",)


def test_no_object_is_ever_unpickled(tmp_path):
    trap = npy(np.array([Trap(), Trap(), Trap()], object))
    path = packed(tmp_path / "t.npz", image=npy(noise(3, 4, 6)), finding=trap)
    assert "never objects" in said(record_files.read, path, schema_of())


@pytest.mark.parametrize(
    "content",
    [
        npy(None, "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 4, 6), }"),
        npy(None, "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 4, 6), }"),
        npy(None, "{'descr': '<U999999999', 'fortran_order': False, 'shape': (3,), }"),
        npy(None, "{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (0,), }"),
        npy(None, "{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,), }"),
        npy(None, "{" * 110),
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{",
        b"\x93NUMPY\x03\x00" + struct.pack("<I", 20) + b"{" * 20,
        npy(noise(3, 4, 6))[:-5],
        npy(noise(3, 4, 6)) + b"more",
        b"CANARY",
        b"",
    ],
)
def test_lying_headers_are_refused_before_memory_is_allocated(tmp_path, content):
    path = packed(tmp_path / "t.npz", image=content, finding=npy(np.array(["none"] * 3)))
    assert "t.npz" in said(record_files.read, path, schema_of())


def test_files_that_unpack_to_far_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "FREE", 1 << 20)
    path = tmp_path / "t.npz"
    np.savez_compressed(path, image=np.zeros((100_000, 4, 6), np.uint8), finding=np.array(["none"] * 100_000))
    assert "over 200 times its size" in said(record_files.read, path, schema_of())
    np.savez(path, image=np.zeros((100_000, 4, 6), np.uint8), finding=np.array(["none"] * 100_000))
    assert len(record_files.read(path, schema_of())) == 100_000


@pytest.mark.parametrize(
    "broken",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda _: b"CANARY" * 20,
        lambda _: b"",
        lambda raw: raw.replace(b"image.npy", b"image.txt"),
        lambda raw: raw.replace(b"finding.npy", b"image.npy\0\0"),
        lambda raw: raw[:60] + bytes([raw[60] ^ 255, raw[61] ^ 255]) + raw[62:],
    ],
)
def test_broken_npz(tmp_path, broken):
    path = saved(tmp_path)
    path.write_bytes(broken(path.read_bytes()))
    assert "t.npz" in said(record_files.read, path, schema_of())


# Folders


def drawn(where, *names, size=(4, 6), mode=None):
    where.mkdir(exist_ok=True)
    for seed, name in enumerate(names):
        (where / name).parent.mkdir(exist_ok=True, parents=True)
        Pillow.fromarray(noise(*size, seed=seed), mode).save(where / name)
    return where


def listing(where, *lines, name="labels.csv"):
    (where / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return where


def test_folders_of_others(tmp_path):
    where = drawn(tmp_path / "ward", "b.png", "deep/down/a.PNG", "c.jpg")
    listing(where, "finding;file", "left;deep/down/a.PNG", "right;./b.png", "none;c.jpg", name="any.csv")
    back = record_files.read(where, schema_of())
    assert back["finding"].tolist() == ["left", "right", "none"]
    np.testing.assert_array_equal(back["image"][0], noise(4, 6, seed=1))
    np.testing.assert_array_equal(back["image"][1], noise(4, 6, seed=0))
    assert back["image"][2].shape == (4, 6)
    schema_of().validate(back)


def test_pictures_that_no_line_names_are_left_out(tmp_path):
    where = listing(
        drawn(tmp_path / "ward", "a.png", "b.png", "c.png", ".d.png", "__MACOSX/e.png"), "file,finding", "b.png,left"
    )
    with pytest.warns(
        UserWarning, match=r"labels\.csv does not name all pictures in the folder: the others are left out"
    ):
        assert len(record_files.read(where, schema_of())) == 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["file,finding", "a.png,left", "a.png,left"], "records 1 and 2 name the same picture"),
        (["file,finding", *["a.png,left"] * 3], "records 1 and 2, 1 and 3 name the same picture"),
        (["file,finding", "a.png,left", "./a.png,left"], "records 1 and 2 name the same picture"),
        (["file,finding", "x.png,left"], "record 1: no such file in"),
        (["file,finding", "x.png,left", "a.png,left", "y.png,left"], "records 1, 3: no such file in"),
        (["file,finding", "a.png,left", ",left"], "record 2: has no name in column 'file'"),
        (["file,finding", "../a.png,left"], "record 1: its file leads outside the folder"),
        (["file,finding", "sub/../../a.png,left"], "leads outside the folder"),
        (["file,finding", "/etc/a.png,left"], "leads outside the folder"),
        (["file,finding", "..\\a.png,left"], "leads outside the folder"),
        (["file,finding", "C:\\a.png,left"], "leads outside the folder"),
        (["file,finding", "out.png,left"], "leads outside the folder"),
        (["file,finding", '"a\n.png",left'], "characters that cannot be shown"),
        (["file,finding", "a.gif,left"], "must end in .png"),
        (["picture,finding", "a.png,left"], "needs a column 'file'"),
        (["file,finding,image", "a.png,left,CANARY"], "'image' is the image column"),
        (["file", "a.png"], "lacks columns 'finding'"),
        (["file,finding", "a.png,left,CANARY"], "as in the header"),
        ([""], "empty"),
    ],
)
def test_lists_that_do_not_fit(tmp_path, lines, says):
    drawn(tmp_path, "secret.png")
    where = listing(drawn(tmp_path / "ward", "a.png"), *lines)
    if "out.png" in lines[-1]:
        (where / "out.png").symlink_to(tmp_path / "secret.png")
    message = said(record_files.read, where, schema_of())
    assert "ward" in message
    assert says in message


def test_no_advice_on_labels_beside_pictures_needs_a_reading(tmp_path):
    columns = {**LABELS, "dose": {"kind": "continuous", "bounds": [0, 9]}}
    where = listing(drawn(tmp_path / "ward", "a.png"), "file;finding;dose", "a.png;left ;3,5")
    schema = schema_of(columns)
    frame = record_files.read(where, schema)
    found = {each.column: each.remedy for each in review(schema, frame, frame) if each.refused}
    assert found["dose"] == "correct the cells, or declare another kind"
    assert found["finding"].endswith("some have space around them")
    with pytest.raises(BadInput, match="labels beside pictures are UTF-8, with decimal points and ISO dates"):
        Schema.from_dict({**schema.to_dict(), "reading": {"decimal": ","}})


def test_links_within_the_folder_are_followed(tmp_path):
    where = listing(drawn(tmp_path / "ward", "a.png"), "file,finding", "b.png,left")
    (where / "b.png").symlink_to("a.png")
    (tmp_path / "door").symlink_to(where)
    with pytest.warns(UserWarning, match="does not name all pictures"):
        assert len(record_files.read(tmp_path / "door", schema_of())) == 1


def test_labels_missing_and_unknown_are_the_pre_checks(tmp_path):
    where = listing(drawn(tmp_path / "ward", "a.png", "b.png"), "file,finding,extra", "a.png,,1", "b.png,CANARY,2")
    back = record_files.read(where, schema_of())
    assert "columns that the schema does not know: 'extra'" in said(schema_of().validate, back)
    message = said(schema_of().validate, back.drop(columns="extra"))
    assert "some values are not one of the declared categories" in message
    assert "some values are missing" in message


def test_folders_that_hold_no_data_set(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no pictures" in said(record_files.read, tmp_path / "empty", schema_of())
    where = drawn(tmp_path / "two", "a.png")
    assert "two: has no labels.csv; it names each picture in its column 'file'" in said(
        record_files.read, where, schema_of()
    )
    for name in ("x.csv", "y.csv"):
        listing(where, "file,finding", name=name)
    assert "2 CSV files" in said(record_files.read, where, schema_of())
    taken = schema_of({"file": LABELS["finding"]})
    assert "column named 'file'" in said(record_files.read, listing(where, "file"), taken)
    assert "column named 'file'" in said(record_files.write, [], tmp_path / "out", taken)
    many = schema_of(channels=5)
    assert "write .npz" in said(record_files.write, [], tmp_path / "out", many)


def one(tmp_path, picture, name="a.png", **options):
    """A folder of one file: a Pillow picture, or bytes."""
    where = tmp_path / "ward"
    where.mkdir(exist_ok=True)
    if isinstance(picture, bytes):
        (where / name).write_bytes(picture)
    else:
        picture.save(where / name, **options)
    return listing(where, "file,finding", f"{name},left")


def bytes_of(picture, form="PNG", **options):
    content = io.BytesIO()
    picture.save(content, format=form, **options)
    return content.getvalue()


def header_only(width, height, depth=8, colour=0):
    """A PNG file that claims a size and holds next to nothing."""

    def part(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    size = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", size) + part(b"IDAT", zlib.compress(bytes(100))) + part(b"IEND", b"")


GREY = Pillow.fromarray(noise(4, 6))
COLOUR = Pillow.fromarray(noise(4, 6, 3))
DEEP = Pillow.fromarray(np.arange(24, dtype=np.uint16).reshape(4, 6) * 1000)


@pytest.mark.parametrize(
    ("content", "image", "says"),
    [
        (bytes_of(GREY.resize((5, 4))), {}, "4 x 5 pixels, but the schema declares 4 x 6; resize: fit"),
        (bytes_of(DEEP), {}, "the pixel values in the files that become black and white, such as [0, 4095]"),
        (header_only(6, 4, 16, 2), {}, "16 bits per channel"),
        (header_only(60, 40), {"resize": "fit"}, "cannot be read as PNG or JPEG"),
        (header_only(60_000, 60_000), {}, "60000 x 60000|too many pixels"),
        (header_only(60_000, 60_000), {"resize": "fit"}, "60000 x 60000|too many pixels"),
        (header_only(9_000, 9_000), {"resize": "fit"}, "9000 x 9000 pixels; from 1 to"),
        (bytes_of(GREY)[:-30], {}, "cannot be read as PNG or JPEG"),
        (bytes_of(GREY)[:40], {}, "cannot be read as PNG or JPEG"),
        (bytes_of(GREY, "JPEG")[:150], {}, "cannot be read as PNG or JPEG"),
        (bytes_of(GREY, "GIF"), {}, "cannot be read as PNG or JPEG"),
        (bytes_of(GREY, "TIFF"), {}, "cannot be read as PNG or JPEG"),
        (b"CANARY" * 50, {}, "cannot be read as PNG or JPEG"),
        (b"", {}, "cannot be read as PNG or JPEG"),
        (bytes_of(GREY, save_all=True, append_images=[GREY.rotate(180)]), {}, "several pictures"),
        (bytes_of(Pillow.fromarray(noise(4, 6, 4))), {}, "transparent"),
        (bytes_of(COLOUR), {"channels": 4}, "no alpha channel"),
        (bytes_of(COLOUR), {"channels": 5}, "1 to 4 channels"),
    ],
)
def test_files_that_do_not_fit(tmp_path, content, image, says):
    message = said(record_files.read, one(tmp_path, content), schema_of(**image))
    assert "a.png" in message
    assert any(part in message for part in says.split("|"))


def test_all_files_that_cannot_be_read_are_named_at_once(tmp_path):
    names = [f"{number:02}.png" for number in range(30)]
    where = listing(drawn(tmp_path / "ward", *names), "file,finding", *(f"{name},left" for name in names))
    for name in ("02.png", "04.png"):
        (where / name).write_bytes(b"CANARY")
    (where / "05.png").write_bytes(bytes_of(Pillow.fromarray(noise(4, 6, 4))))
    transparent = "05.png: is transparent in places; save it without an alpha channel"
    assert said(record_files.read, where, schema_of()) == (
        f"{where}: 02.png, 04.png: cannot be read as PNG or JPEG (UnidentifiedImageError). {transparent}"
    )
    assert f"{where}: 02.png, 04.png: cannot be" in said(picture_draft.drafted, where)
    (where / "02.png").unlink()
    (where / "04.png").unlink()
    listing(where, "file,finding", *(f"{name},left" for name in names if name not in ("02.png", "04.png")))
    assert said(record_files.read, where, schema_of()) == f"{where}/{transparent}"
    listing(where, "file,finding", *(f"{name},left" for name in names))
    drawn(where, "02.png")
    for name in names[3:]:
        (where / name).write_bytes(b"CANARY")
    message = said(record_files.read, where, schema_of())
    assert f"{where}: the first 20 faults: 03.png, 04.png" in message
    assert ", 22.png: cannot" in message
    assert "23.png" not in message


def luma(colour):
    """ITU-R BT.601."""
    return colour.astype(float) @ [0.299, 0.587, 0.114]


def read_one(where, **image):
    return record_files.read(where, schema_of(**image))["image"][0]


def test_colours_and_greys(tmp_path):
    colour = noise(4, 6, 3)
    assert np.abs(read_one(one(tmp_path, COLOUR)) - luma(colour)).max() <= 1
    np.testing.assert_array_equal(read_one(one(tmp_path, COLOUR), channels=3), colour)
    np.testing.assert_array_equal(read_one(one(tmp_path, GREY), channels=3), np.stack([noise(4, 6)] * 3, axis=2))
    opaque = Pillow.fromarray(np.dstack([colour, np.full((4, 6), 255, np.uint8)]))
    np.testing.assert_array_equal(read_one(one(tmp_path, opaque), channels=3), colour)
    np.testing.assert_array_equal(read_one(one(tmp_path, opaque), channels=4)[..., :3], colour)
    table = Pillow.fromarray(noise(4, 6)).convert("P")
    np.testing.assert_array_equal(read_one(one(tmp_path, table)), noise(4, 6))
    bits = Pillow.fromarray(noise(4, 6) > 99)
    np.testing.assert_array_equal(read_one(one(tmp_path, bits)), np.where(noise(4, 6) > 99, 255, 0))


def test_sixteen_bits_by_a_window(tmp_path):
    deep = np.arange(24).reshape(4, 6) * 1000
    found = read_one(one(tmp_path, DEEP), window=[2000, 12_000])
    np.testing.assert_array_equal(found, np.rint(np.clip((deep - 2000) / 10_000, 0, 1) * 255))
    smaller = schema_of(window=[0, 23_000], resize="fit").to_dict()
    smaller["columns"]["image"].update(height=2, width=3)
    back = record_files.read(one(tmp_path, DEEP), Schema.from_dict(smaller))["image"][0]
    assert np.abs(back - areas(deep * 255 / 23_000, 2, 3)).max() <= 0.5 + 1e-3


def test_pictures_of_8_and_16_bits_under_one_window_are_told(tmp_path):
    where = drawn(tmp_path / "ward", "a.png", "b.png")
    DEEP.save(where / "b.png")
    listing(where, "file,finding", "a.png,left", "b.png,right")
    with pytest.warns(UserWarning, match="some pictures have 8 bits and others 16, but one window applies to all"):
        record_files.read(where, schema_of(window=[0, 23_000]))
    GREY.save(where / "b.png")
    record_files.read(where, schema_of(window=[0, 200]))
    with pytest.warns(UserWarning, match="no value is above 255, but the window ends at 23000"):
        record_files.read(where, schema_of(window=[0, 23_000]))


def damaged(raw, rng):
    """The bytes of a file with some changed, cut off or left out."""
    content, way = bytearray(raw), rng.integers(3)
    low, high = sorted(rng.integers(0, len(raw), 2))
    if way == 0:
        return bytes(content[:high])
    if way == 1:
        return bytes(content[:low] + content[high:])
    for place in rng.integers(0, len(raw), 3):
        content[place] = rng.integers(256)
    return bytes(content)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["t.npz", "a.png", "a.jpg"])
def test_damaged_files_are_read_or_refused(tmp_path, name):
    rng, outcomes = np.random.default_rng(5), []
    path = saved(tmp_path) if name == "t.npz" else one(tmp_path, COLOUR, name)
    file = path if name == "t.npz" else path / name
    whole = file.read_bytes()
    for _ in range(60):
        file.write_bytes(damaged(whole, rng))
        try:
            outcomes.append(len(record_files.read(path, schema_of(resize="fit"))))
        except BadInput as error:
            outcomes.append(str(error))
    refused = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(refused) > 12
    assert all(name in message and "\n" not in message for message in refused)


# Drafts and fingerprints


@pytest.mark.parametrize("kind", ["folder", "npz", "large", "deep"])
def test_a_draft_is_a_schema_that_its_pictures_fit(tmp_path, kind):
    where = listing(drawn(tmp_path / "ward", "a.png", "b.png"), "file,finding,grade", "a.png,left,3", "b.png,right,1")
    if kind == "npz":
        where = tmp_path / "t.npz"
        np.savez(where, x=noise(40, 4, 6, 3), y=np.arange(40) % 3)
    elif kind == "large":
        drawn(where, "b.png", size=(1200, 1000))
        drawn(where, "a.png", size=(1100, 1050))
    elif kind == "deep":
        DEEP.save(where / "a.png")
    made = draft(*picture_draft.drafted(where))
    schema, seen = (Schema.from_dict(yamlfile.parse(text, "draft")) for text in made)
    assert all(column.review for column in schema.columns)
    assert (
        schema.learned == [("y", "categories")]
        if kind == "npz"
        else [("finding", "categories"), ("grade", "categories")]
    )
    if kind != "deep":  # whose window is the steward's
        schema.validate(record_files.read(where, schema))
    expected = {"folder": (4, 6, 1), "npz": (4, 6, 3), "deep": (4, 6, 1)}
    if kind in expected:
        assert (schema.image.height, schema.image.width, schema.image.channels) == expected[kind]
    assert schema.image.resize == ("fit" if kind == "large" else "none")
    assert schema.image.window is None
    assert seen.image.window == ((0, 25_000) if kind == "deep" else None)
    assert ("such as [0, 4095]" in made.schema) == (kind == "deep")
    labels = {"y": ("0", "1", "2")} if kind == "npz" else {"finding": ("left", "right"), "grade": ("1", "3")}
    assert {name: seen.column(name).categories for name in labels} == labels
    assert "were looked at" in made.seen


def test_drafts_of_what_holds_no_pictures(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no pictures" in said(picture_draft.drafted, tmp_path / "empty")
    np.savez(tmp_path / "t.npz", a=noise(3, 4, 6), b=noise(3, 4, 6))
    assert "2 arrays of pictures" in said(picture_draft.drafted, tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", a=noise(3, 4, 6), b=np.zeros(2))
    assert "'b' does not have one value per picture" in said(picture_draft.drafted, tmp_path / "t.npz")


def test_a_folder_is_known_by_its_pictures_and_their_list(tmp_path):
    where = listing(drawn(tmp_path / "ward", "a.png", "sub/b.png"), "file,finding", "a.png,left")
    print_of = fingerprint.of(where)
    first = print_of(b"key")
    assert first == fingerprint.of(tmp_path / "ward")(b"key")
    assert first != print_of(b"other")
    (where / "notes.txt").write_text("a note")
    assert print_of(b"key") == first
    raw = (where / "sub" / "b.png").read_bytes()
    changes = [
        lambda: (where / "sub" / "b.png").write_bytes(raw + b"x"),
        lambda: listing(where, "file,finding", "a.png,right"),
        lambda: (where / "sub" / "b.png").rename(where / "b.png"),
        lambda: (where / "a.png").unlink(),
    ]
    found = [first]
    for change in changes:
        change()
        found.append(print_of(b"key"))
    assert len(set(found)) == len(found)
    assert picture_folder.files(where) == ["b.png", "labels.csv"]
