"""Sphinx builds these pages from Markdown, from the docstrings, and from the options that the code declares (`reference.py`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference

import synthdp

project = "synthdp"
author = "the synthdp authors"
release = version = synthdp.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"synthdp {release}"
exclude_patterns = ["_build"]
default_role = "code"  # docstrings write `name` for code
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"


def setup(app: object) -> None:
    """Pages hold marks where text is put in: generated references, and whole documents of the repository."""
    app.connect("source-read", reference.fill)  # type: ignore[attr-defined]
