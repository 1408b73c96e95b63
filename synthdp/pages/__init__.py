"""What all pages share: a policy that lets nothing in, one small script that sorts tables, and the way to PDF."""

import base64
import hashlib
from pathlib import Path

SORT = (Path(__file__).parent / "sort.js").read_text(encoding="utf-8")
"""Makes the headings of every `table.sortable` buttons that sort it; a page is whole without it."""


def policy(*scripts: str) -> str:
    """A content security policy for a page that is one file: nothing is loaded, and only these inline scripts run.

    A script is allowed by the hash of its text as it stands between its tags (CSP level 2, section 7.18).
    """
    parts = ["default-src 'none'", "style-src 'unsafe-inline'"]
    if scripts:
        hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
        parts.append("script-src " + " ".join(f"'sha256-{value}'" for value in hashes))
    return "; ".join(parts)
