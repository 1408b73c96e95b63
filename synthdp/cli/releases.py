"""Commands on the folder of a release: `verify` checks it, `report` writes its statement as a page, `keygen` and `sign` bind it."""

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import output_paths, settings
from synthdp.errors import BadInput

if TYPE_CHECKING:
    from synthdp.report.folder import Verified

Config = Mapping[str, Any]
PASSPHRASE = "SYNTHDP_PASSPHRASE"  # noqa: S105 - the name of an environment variable


def verify(config: Config) -> None:
    """Print what of a release was checked, and what is only claimed by whoever made it."""
    options: settings.Verify = config["options"]
    found = verified(options.release, options.public)
    print(f"release    {found.folder} (format {found.format})")
    print(f"binding    {found.binding}")
    print(f"guarantee  {found.promise}, worked out again from the events of the ledger")
    print(f"checked    {len(found.checked)} facts agree with what they follow from:")
    _indented(", ".join(found.checked))
    print("claimed    for these there is only the releaser's word:")
    for name, text in found.claimed.items():
        _indented(f"{name}: {text}")


def _indented(text: str) -> None:
    print(textwrap.fill(text, 110, initial_indent=" " * 11, subsequent_indent=" " * 11, break_long_words=False))


def report(config: Config) -> None:
    """Check a release, and write its statement as a page and as JSON."""
    from synthdp.report.statement_page import write

    options: settings.Report = config["options"]
    found = verified(options.release, options.public)
    out = output_paths.folder(options.out, force=options.force)
    write(found.statement, out, verified=found, pdf=options.pdf)
    print(f"statement  {out / 'statement.html'}{' and statement.pdf' if options.pdf else ''}")
    print(f"release    checked; {found.binding}")


def keygen(config: Config) -> None:
    """Make the pair of keys that releases are signed with."""
    from synthdp.report import signature

    options: settings.Keygen = config["options"]
    out, passphrase = Path(options.out), _passphrase()
    if out.exists() and not out.is_dir():
        raise BadInput(f"out={out} is a file; give a folder for {signature.PRIVATE} and {signature.PUBLIC}")
    name = signature.keygen(out, passphrase)
    kept = "; encrypted with the passphrase" if passphrase else ""
    print(f"private    {out / signature.PRIVATE} (keep it where releases are made{kept})")
    if not passphrase:
        output_paths.warn(f"the private key is not encrypted; set {PASSPHRASE} to encrypt it")
    print(f"public     {out / signature.PUBLIC} (hand it out separately from any release)")
    print(f"key        {name}")


def sign(config: Config) -> None:
    """Check a release, and sign its manifest."""
    from synthdp.report import manifest, signature

    options: settings.Sign = config["options"]
    found = verified(options.release, None)
    bound = manifest.check(found.folder)
    if bound is None:
        raise BadInput(
            f"{found.folder} has format {found.format}, without {manifest.MANIFEST}: load it, save it again and sign the new copy"
        )
    if found.signer is not None and not options.force:
        raise BadInput(f"{found.folder} is signed by {found.signer}; pass force=true to replace that signature")
    name = signature.sign(found.folder, bound, Path(options.key), _passphrase())
    print(f"signature  {found.folder / manifest.SIGNATURE}")
    print(f"key        {name}")


def verified(release: str, public: str | None) -> "Verified":
    """The release's folder, checked; of a generator, of a classifier or of a trained module."""
    from synthdp.report.folder import MODULE, STUDENT

    folder = Path(release)
    if (folder / STUDENT).is_file():
        from synthdp.pate import verify as check
    elif (folder / MODULE).is_file():
        from synthdp.trainer import verify as check
    else:
        from synthdp.api import verify as check
    return check(folder, public=public)


def _passphrase() -> bytes | None:
    found = os.environ.get(PASSPHRASE)
    return found.encode() if found else None
