"""JSON of unknown origin is read within limits, or refused in one line."""

import json

import pytest

from synthdp.errors import BadInput
from synthdp.files import strict_json

HOSTILE = {
    "nested 200,000 deep": (b"[" * 200_000 + b"]" * 200_000, "nested"),
    "nested 65 deep": (b"[" * 65 + b"]" * 65, "nested"),
    "objects 900 deep": (b'{"a":' * 900 + b"1" + b"}" * 900, "nested"),
    "never closed": (b"[" * 200_000, "nested"),
    "a number of 4,300 digits": (b"[" + b"9" * 4_300 + b"]", "4300 digits"),
    "a number of 10^6 digits": (b"9" * 1_000_000, "1000000 digits"),
    "1e400": (b"1e400", "too large"),
    "NaN": (b"NaN", "NaN"),
    "Infinity": (b"[-Infinity]", "Infinity"),
    "half a character": (b'["\\ud800"]', "surrogate"),
    "half a character as a name": (b'{"\\udc00": 1}', "surrogate"),
    "the same name twice": (b'{"a": 1, "b": 2, "a": 3}', "twice"),
    "no UTF-8": (b"\xff\xfe\x00", "not JSON"),
    "nothing": (b"", "not JSON at line 1"),
    "half": (b'{"a": [1,\n', "not JSON at line 2"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_a_line(name):
    text, words = HOSTILE[name]
    with pytest.raises(BadInput, match=words) as error:
        strict_json.parse(text, "it")
    assert len(str(error.value)) < 100
    assert "\n" not in str(error.value)


def test_what_synthdp_writes_is_read():
    value = {"a": [1, -2.5, None, True, "ü 😀", {"b": {}}], "c": 10**39}
    assert strict_json.parse(json.dumps(value).encode(), "it") == value
    assert strict_json.parse(json.dumps(value, ensure_ascii=False).encode(), "it") == value
    assert strict_json.parse(b"[" * 64 + b"]" * 64, "it") is not None


def test_infinity_is_for_ledgers():
    assert strict_json.parse(b'{"bound":Infinity}', "it", infinite=True) == {"bound": float("inf")}
    with pytest.raises(BadInput, match="NaN"):
        strict_json.parse(b'{"bound":NaN}', "it", infinite=True)


def test_what_is_too_much_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(BadInput, match=r"large\.json has 2,147,483,648 bytes"):
        strict_json.load(tmp_path / "large.json")
    monkeypatch.setattr(strict_json, "MOST_VALUES", 10)
    with pytest.raises(BadInput, match="more than 10 values"):
        strict_json.parse(b"[0,0,0,0,0,0,0,0,0,0,0]", "it")
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(BadInput):
            strict_json.load(path)
