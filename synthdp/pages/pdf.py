"""A page as PDF: printed by a browser of the Chromium family without a network, so that paper and screen agree."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from synthdp.errors import BadInput
from synthdp.files import atomic

ENGINES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 120  # a page takes a few; a loaded machine many more
NEEDED = (
    "pdf=true needs a browser of the Chromium family to print the page: install one (Debian and Ubuntu: apt install chromium) so "
    f"that {' or '.join(ENGINES[:3])} is on the PATH, or leave pdf= out and print the page yourself"
)
_OWN_CLOCK = "--disable-features=NetworkTimeServiceQuerying"  # it would ask its maker for the time
_DATE = re.compile(rb"/(CreationDate|ModDate) \(D:\d{14}\+00'00'\)")


def engine() -> str | None:
    """The browser that prints pages, or None."""
    return next((found for name in ENGINES if (found := shutil.which(name))), None)


def check() -> None:
    """Raises `BadInput` where no page can be printed; to be asked before long work."""
    if engine() is None:
        raise BadInput(NEEDED)


def write_pdf(html: str, path: Path | str) -> Path:
    """Print a self-contained page (`html`, its text) to `path`: tagged, its text selectable, whole or not at all.

    The browser starts with an empty profile and no name resolves for it, so a page could load nothing even if it tried. The
    time of printing is blanked out. Raises `BadInput` where no browser is found or it prints nothing.
    """
    check()
    path = Path(path)
    with tempfile.TemporaryDirectory(prefix="synthdp-paper-") as scratch, atomic.file(path) as part:
        page, printed = Path(scratch) / "page.html", Path(scratch) / "page.pdf"
        page.write_text(html, encoding="utf-8")
        run("--no-pdf-header-footer", f"--print-to-pdf={printed}", page.as_uri(), profile=Path(scratch) / "profile")
        if not printed.is_file() or not printed.stat().st_size:
            raise BadInput(
                f"{engine()} printed nothing to {path.name}; open the page in a browser and print it yourself"
            )
        part.write_bytes(_timeless(printed.read_bytes()))
    return path


def run(*arguments: str, profile: Path) -> subprocess.CompletedProcess[str]:
    """Run the browser headless and without a network (`arguments` are its own); what it printed is in the answer.

    Raises `BadInput` where there is none, or it does not end in time.
    """
    check()
    quiet = ("--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions")
    silent = ("--disable-background-networking", "--disable-sync", "--disable-component-update", _OWN_CLOCK)
    nowhere = ("--host-resolver-rules=MAP * ~NOTFOUND",)
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()  # its sandbox refuses root
    command = [str(engine()), *quiet, *silent, *nowhere, *root, f"--user-data-dir={profile}", *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 - no shell
    except subprocess.TimeoutExpired as error:
        raise BadInput(
            f"{engine()} did not print within {SECONDS} s; leave pdf= out and print the page by hand"
        ) from error


def _timeless(pdf: bytes) -> bytes:
    """The same file with its dates set to one fixed moment of the same length, so that no offset moves."""
    return _DATE.sub(lambda match: b"/" + match[1] + b" (D:19800101000000+00'00')", pdf)
