"""Law 43: the manifest binds every file of a release, and a signature binds the manifest to who holds the key."""

import json
import os
import shutil
import stat

import pytest
from clinic import make_frame, make_schema, reseal
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from synthdp import BadInput, Budget, Synthesizer, load, verify
from synthdp.cli import run
from synthdp.report import manifest, signature

PARTS = ("ledger.jsonl", "model.safetensors", "release.json")
SEALED = (*PARTS, "manifest.json", "signature")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "release"
    made = Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-5)).fit(make_frame(100))
    return made.save(folder)


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "release")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    signature.keygen(folder)
    return folder


@pytest.fixture
def signed(folder, keys):
    signature.sign(folder, manifest.check(folder), keys / "private.pem")
    return folder


def flipped(path):
    """One bit of the file, in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_release_lists_its_files_and_says_that_nobody_signed_it(folder):
    listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    assert set(listed) == set(PARTS)
    assert {name: (folder / name).stat().st_size for name in PARTS} == {name: listed[name]["bytes"] for name in PARTS}
    found = verify(folder)
    assert (found.format, found.signer, found.signed) == (2, None, False)
    assert found.binding == "unsigned: this detects damage, not forgery"
    assert verify(str(folder)).checked["epsilon"]


@pytest.mark.parametrize("name", PARTS)
def test_a_changed_or_missing_file_is_refused_by_its_name(folder, name):
    flipped(folder / name)
    for read in (load, verify):
        with pytest.raises(BadInput, match=f"'{name}' is not the file that manifest.json lists"):
            read(folder)
    (folder / name).unlink()
    with pytest.raises(BadInput, match=name):
        load(folder)


def test_what_is_not_listed_is_refused_by_its_name(folder, tmp_path):
    def hidden():
        (folder / ".DS_Store").write_bytes(b"")

    def other():
        (folder / "statement.html").write_text("<p>epsilon 0.1</p>")

    def inner():
        (folder / "more").mkdir()

    def link():
        (folder / "notes").symlink_to(tmp_path / "nowhere")

    def pipe():
        os.mkfifo(folder / "pipe")

    for add, name in (
        (hidden, ".DS_Store"),
        (other, "statement.html"),
        (inner, "more"),
        (link, "notes"),
        (pipe, "pipe"),
    ):
        add()
        with pytest.raises(BadInput, match=f"'{name}' is"):
            load(folder)
        added = folder / name
        added.rmdir() if added.is_dir() else added.unlink()
    load(folder)


def test_a_listed_file_behind_a_link_is_refused(folder, tmp_path):
    (folder / "release.json").rename(tmp_path / "elsewhere.json")
    (folder / "release.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(BadInput, match=r"'release\.json' is a folder or a link"):
        load(folder)


def test_a_long_name_is_not_echoed_at_length(folder):
    (folder / ("a\x1b" * 100)).write_bytes(b"")
    with pytest.raises(BadInput) as error:
        load(folder)
    assert len(str(error.value)) < len(str(folder)) + 250
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(manifest=2),
        lambda body: body.update(manifest=None),
        lambda body: body.update(files=[]),
        lambda body: body.update(files=None),
        lambda body: body["files"].pop("ledger.jsonl"),
        lambda body: body["files"].update({"../release.json": body["files"]["release.json"]}),
        lambda body: body["files"].update({"/etc/passwd": {"bytes": 1, "sha256": "0"}}),
        lambda body: body["files"]["release.json"].update(bytes=None),
        lambda body: body["files"]["release.json"].update(sha256=5),
        lambda body: body.pop("manifest"),
    ],
)
def test_a_manifest_that_is_none_is_refused(folder, change):
    path = folder / "manifest.json"
    body = json.loads(path.read_text(encoding="utf-8"))
    change(body)
    path.write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(BadInput):
        load(folder)


def test_without_its_manifest_a_release_is_of_another_format(folder):
    """A forger who takes the manifest away must say format 1, which is then what the release is called."""
    (folder / "manifest.json").rename(folder.parent / "manifest.json")
    with pytest.raises(BadInput, match=r"manifest\.json is missing"):
        load(folder)
    text = (folder / "release.json").read_text(encoding="utf-8")
    (folder / "release.json").write_text(text.replace('"format": 2', '"format": 1'), encoding="utf-8")
    found = verify(folder)
    assert found.format == 1
    assert "no manifest and no signature" in found.binding
    reseal(folder)
    with pytest.raises(BadInput, match="says format 1"):
        load(folder)
    for wrong in ("3", "true", '"2"', "null"):
        (folder / "release.json").write_text(text.replace('"format": 2', f'"format": {wrong}'), encoding="utf-8")
        reseal(folder)
        with pytest.raises(BadInput, match="format"):
            load(folder)


def test_signed_by_a_key_that_is_known(signed, keys):
    name = signature.signer(signed)
    assert name == json.loads((signed / "signature").read_text(encoding="utf-8"))["key"]
    assert "no public key was given" in verify(signed).binding
    assert not verify(signed).signed
    assert load(signed, public=keys / "public.pem").statement.epsilon
    found = verify(signed, public=keys / "public.pem")
    assert (found.signed, found.binding) == (True, f"signed by {name}")


@pytest.mark.parametrize("name", SEALED)
def test_with_a_signature_every_change_is_refused(signed, keys, name):
    """Also where the forger makes the manifest anew, and where a change leaves all facts as they are."""
    flipped(signed / name)
    with pytest.raises(BadInput):
        load(signed, public=keys / "public.pem")
    if name in PARTS:
        reseal(signed)
        with pytest.raises(BadInput, match="the signature does not fit"):
            load(signed, public=keys / "public.pem")


def test_a_change_that_contradicts_nothing_is_refused_by_the_signature_alone(signed, keys):
    path = signed / "release.json"
    body = json.loads(path.read_text(encoding="utf-8"))
    body["statement"]["release_id"] = "123e4567-e89b-42d3-a456-426614174000"
    path.write_text(json.dumps(body), encoding="utf-8")
    reseal(signed)
    assert "release_id" in verify(signed).claimed
    with pytest.raises(BadInput, match="the signature does not fit"):
        verify(signed, public=keys / "public.pem")


def test_other_signatures_are_refused(signed, keys, tmp_path):
    other = tmp_path / "other"
    signature.keygen(other)
    with pytest.raises(BadInput, match="was signed with the key"):
        load(signed, public=other / "public.pem")
    path, body = signed / "signature", json.loads((signed / "signature").read_text(encoding="utf-8"))
    key = load_pem_private_key((keys / "private.pem").read_bytes(), None)
    bare = key.sign((signed / "manifest.json").read_bytes())  # of the same bytes, for another purpose
    import base64

    for change in (
        {"signature": base64.b64encode(bare).decode()},
        {"signature": ""},
        {"signature": "not base 64"},
        {"signature": None},
        {"algorithm": "none"},
        {"key": "SHA256:" + "0" * 64},
        {"key": "\x1b[31m"},
    ):
        path.write_text(json.dumps({**body, **change}), encoding="utf-8")
        with pytest.raises(BadInput, match="signature"):
            load(signed, public=keys / "public.pem")
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(BadInput, match="is not the signature"):
        load(signed)
    path.unlink()
    with pytest.raises(BadInput, match="is not signed"):
        load(signed, public=keys / "public.pem")


def test_keys_are_the_owner_s_and_never_written_over(tmp_path):
    name = signature.keygen(tmp_path / "keys")
    private = tmp_path / "keys" / "private.pem"
    before = private.read_bytes()
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert name.startswith("SHA256:")
    with pytest.raises(BadInput, match="never overwritten"):
        signature.keygen(tmp_path / "keys")
    private.rename(tmp_path / "private.pem")
    with pytest.raises(BadInput, match="never overwritten"):
        signature.keygen(tmp_path / "keys")
    assert (tmp_path / "private.pem").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["public.pem"]


def test_a_key_with_a_passphrase(folder, tmp_path):
    signature.keygen(tmp_path / "keys", b"open sesame")
    private, bound = tmp_path / "keys" / "private.pem", manifest.check(folder)
    assert b"ENCRYPTED" in private.read_bytes()
    for passphrase, words in ((None, "is encrypted"), (b"wrong", "passphrase is wrong")):
        with pytest.raises(BadInput, match=words):
            signature.sign(folder, bound, private, passphrase)
    signature.sign(folder, bound, private, b"open sesame")
    assert verify(folder, public=tmp_path / "keys" / "public.pem").signed


def test_what_is_no_key_is_refused_in_a_line(signed, keys, tmp_path):
    foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "rsa.pem").write_bytes(foreign.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "rsa.pub").write_bytes(
        foreign.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "text").write_text("hello")
    bound = manifest.check(signed)
    for name in ("rsa.pem", "text", "nothing"):
        with pytest.raises(BadInput):
            signature.sign(signed, bound, tmp_path / name)
    with pytest.raises(BadInput, match="is not a private key"):
        signature.sign(signed, bound, keys / "public.pem")
    for path in (tmp_path / "rsa.pub", tmp_path / "text", tmp_path / "nothing", tmp_path, keys / "private.pem"):
        with pytest.raises(BadInput):
            load(signed, public=path)
    shutil.copy(keys / "public.pem", signed / "public.pem")
    with pytest.raises(BadInput, match="not listed"):
        load(signed, public=signed / "public.pem")


@pytest.mark.heavy
def test_on_the_command_line(folder, tmp_path, capsys, monkeypatch):
    keys = tmp_path / "keys"
    monkeypatch.setenv("SYNTHDP_PASSPHRASE", "open sesame")
    assert run(["keygen", f"out={keys}"]) == 0
    assert run(["verify", f"release={folder}"]) == 0
    assert "unsigned: this detects damage, not forgery" in capsys.readouterr().out
    assert run(["verify", f"release={folder}", f"public={keys / 'public.pem'}"]) == 2
    assert "is not signed" in capsys.readouterr().err
    assert run(["sign", f"release={folder}", f"key={keys / 'private.pem'}"]) == 0
    assert run(["sign", f"release={folder}", f"key={keys / 'private.pem'}"]) == 2
    assert "force=true" in capsys.readouterr().err
    assert run(["sign", f"release={folder}", f"key={keys / 'private.pem'}", "force=true"]) == 0
    assert run(["verify", f"release={folder}", f"public={keys / 'public.pem'}"]) == 0
    said = capsys.readouterr().out
    name = signature.signer(folder)
    assert f"signed by {name}" in said
    assert "facts agree with what they follow from" in said
    checked, claimed = said.split("claimed  ")
    assert " epsilon," in checked
    assert " columns," in checked
    for line in (" account: ", " rehearsal: "):
        assert line in claimed
    assert "fitness" in checked
    assert "fitness" not in claimed, "there are no figures of fitness to claim"
    assert run(["report", f"release={folder}", f"public={keys / 'public.pem'}", f"out={tmp_path / 'page'}"]) == 0
    page = (tmp_path / "page" / "statement.html").read_text(encoding="utf-8")
    assert f"Signed by {name}" in page
    assert "Claimed by whoever signed it" in page
    flipped(folder / "model.safetensors")
    for words in (
        ["verify"],
        ["report", f"out={tmp_path / 'other'}"],
        ["sign", f"key={keys / 'private.pem'}", "force=true"],
    ):
        assert run([*words, f"release={folder}"]) == 2
        assert "'model.safetensors' is not the file" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
