"""The signature of a release: Ed25519 over its manifest, which binds every file to who holds the key (RFC 8032).

The public key never comes from the release: whoever checks one knows the key of the hospital from elsewhere.
"""

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from synthdp.errors import BadInput
from synthdp.files import atomic, strict_json
from synthdp.report.manifest import MANIFEST, SIGNATURE

PRIVATE, PUBLIC = "private.pem", "public.pem"
PREFIX = b"synthdp: the manifest of a release\n"  # a signature of these bytes is none of anything else
ALGORITHM = "Ed25519"
MOST_BYTES = 1 << 16  # of a key or a signature


def keygen(folder: Path, passphrase: bytes | None = None) -> str:
    """Write a new pair of keys into `folder`, the private one for its owner alone, and return the public one's fingerprint.

    Keys are never written over. With a passphrase the private key is encrypted (PKCS8).
    """
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in (PRIVATE, PUBLIC):
        if os.path.lexists(folder / name):
            raise BadInput(f"{folder / name} exists; a key is never overwritten, so choose another folder")
    for name, data, mode in ((PRIVATE, secret, 0o600), (PUBLIC, public, 0o644)):
        with atomic.file(folder / name) as part, open(os.open(part, os.O_WRONLY | os.O_CREAT, mode), "wb") as file:
            file.write(data)
    return fingerprint(key.public_key())


def fingerprint(key: Ed25519PublicKey) -> str:
    """The key's name: the SHA-256 of its 32 bytes."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return "SHA256:" + hashlib.sha256(raw).hexdigest()


def sign(folder: Path, manifest: bytes, key: Path, passphrase: bytes | None = None) -> str:
    """Sign a manifest that was checked, and return the fingerprint. An older signature is replaced."""
    private = _private(key, passphrase)
    name = fingerprint(private.public_key())
    body = {
        "algorithm": ALGORITHM,
        "key": name,
        "signature": base64.b64encode(private.sign(PREFIX + manifest)).decode(),
    }
    atomic.write(folder / SIGNATURE, json.dumps(body, indent=2) + "\n")
    return name


def signer(folder: Path) -> str | None:
    """The fingerprint of the key that the signature says it was made with, which nobody checked; None for an unsigned release."""
    found = _read(folder)
    return None if found is None else found[0]


def check(folder: Path, manifest: bytes | None, public: Path) -> str:
    """The fingerprint of the key in the file `public`, where it signed this manifest; raises `BadInput` where it did not."""
    key = _public(public)
    name, found = fingerprint(key), _read(folder)
    if manifest is None:
        raise BadInput(f"{folder} has no {MANIFEST}, so nothing in it can be signed; ask for a release of format 2")
    if found is None:
        raise BadInput(
            f"{folder} is not signed, and public={public} was given to check a signature; ask for a signed release"
        )
    if found[0] != name:
        raise BadInput(f"{folder}: the release was signed with the key {found[0]}, not with {name} in {public}")
    try:
        key.verify(found[1], PREFIX + manifest)
    except InvalidSignature:
        raise BadInput(
            f"{folder}: the signature does not fit {MANIFEST}; the release was altered after it was signed, or the signature is forged"
        ) from None
    return name


def _read(folder: Path) -> tuple[str, bytes] | None:
    path = folder / SIGNATURE
    if not os.path.lexists(path):
        return None
    values: Any = strict_json.parse(strict_json.read(path, MOST_BYTES), str(path))
    try:
        name, signature = values["key"], base64.b64decode(values["signature"], validate=True)
        if values["algorithm"] == ALGORITHM and re.fullmatch("SHA256:[0-9a-f]{64}", name):
            return name, signature
    except (KeyError, TypeError, ValueError):
        pass
    raise BadInput(f"{path} is not the signature of a release")


def _private(path: Path, passphrase: bytes | None) -> Ed25519PrivateKey:
    data = strict_json.read(path, MOST_BYTES)
    try:
        key = serialization.load_pem_private_key(data, passphrase)
    except TypeError:
        raise BadInput(
            f"{path}: the key is encrypted; put its passphrase into the environment variable SYNTHDP_PASSPHRASE"
            if passphrase is None
            else f"{path}: the key is not encrypted; unset SYNTHDP_PASSPHRASE"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadInput(f"{path} is not a private key, or the passphrase is wrong") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"{path} is not an {ALGORITHM} key; make one with synthdp keygen out=FOLDER")
    return key


def _public(path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(strict_json.read(path, MOST_BYTES))
    except (ValueError, UnsupportedAlgorithm) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} is not a public key; give the file public.pem that synthdp keygen wrote") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"{path} is not an {ALGORITHM} key; give the file public.pem that synthdp keygen wrote")
    return key
