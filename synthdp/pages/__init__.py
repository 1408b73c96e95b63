"""What all pages share: a policy that lets nothing in, one small script that sorts tables, figures as SVG, and the way to PDF."""

import base64
import functools
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.files import atomic

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

SORT = (Path(__file__).parent / "sort.js").read_text(encoding="utf-8")
"""Makes the headings of every `table.sortable` buttons that sort it; a page is whole without it."""


def environment(*folders: Path, filters: Mapping[str, Callable[..., Any]]) -> "Environment":
    """Jinja for the templates in these folders. Names are other people's words, so everything is escaped."""
    return _environment(folders, tuple(filters.items()))


@functools.cache  # with its templates, which take as long to compile as a page takes
def _environment(folders: tuple[Path, ...], filters: tuple[tuple[str, Callable[..., Any]], ...]) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= dict(filters)
    return made


def write(folder: Path, texts: Mapping[str, str], pdf: str | None = None) -> tuple[Path, ...]:
    """Write `texts`, by file name, into the folder, which is made if need be. Each file is written whole or not at all, and replaces an
    older one. The page with the name `pdf`, if there is one, is also printed as a PDF beside it. Returns the paths. Raises `BadInput`
    before anything is written if no page can be printed."""
    from synthdp.pages import pdf as printer

    if pdf is not None:
        printer.check()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        atomic.write(folder / name, text)
    paths = tuple(folder / name for name in texts)
    return paths if pdf is None else (*paths, printer.write_pdf(texts[pdf], (folder / pdf).with_suffix(".pdf")))


@contextmanager
def drawing(
    size: tuple[float, float], style: dict[Any, Any], face: str = "none"
) -> "Iterator[tuple[Figure, io.StringIO]]":
    """A fresh figure (inches) to draw on in a style of matplotlib's settings; at the end of the block the text buffer holds its SVG, the
    same for the same drawing where the style has an `svg.hashsalt`. `face`: the colour behind it; none: transparent."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    text = io.StringIO()
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, text
        nothing: dict[str, None] = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", facecolor=face, transparent=face == "none", metadata=nothing)


def policy(*scripts: str) -> str:
    """A content security policy for a page that is one file: nothing is loaded, and only these inline scripts run.

    A script is allowed by the hash of its text as it stands between its tags (CSP level 2, section 7.18).
    """
    parts = ["default-src 'none'", "style-src 'unsafe-inline'"]
    if scripts:
        hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
        parts.append("script-src " + " ".join(f"'sha256-{value}'" for value in hashes))
    return "; ".join(parts)
