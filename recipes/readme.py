"""Copy the tables of reports/*.md into README.md, PRIVACY.md and docs/*.md, between their markers. Tests compare them.

`<!-- reports/NAME.md -->` is the whole report, `<!-- reports/NAME.md: Heading -->` one of its sections.
"""

import re

from record import HOME

MARKER = r"<!-- (reports/\S+\.md)(?:: ([^>]+?))? -->"


def rows_of(report: str, heading: str | None) -> list[str]:
    """The rows of a report's tables, or of those of one section."""
    text = (HOME / report).read_text(encoding="utf-8")
    if heading is not None:
        _, _, text = text.partition(f"\n## {heading}\n")
        text, _, _ = text.partition("\n## ")
    return [line for line in text.splitlines() if line.startswith("|")]


def main() -> None:
    """Rewrite the pages."""
    for page in (HOME / "README.md", HOME / "PRIVACY.md", *sorted((HOME / "docs").glob("*.md"))):
        text = re.sub(rf"({MARKER}).*?<!-- end -->", _block, page.read_text(encoding="utf-8"), flags=re.DOTALL)
        page.write_text(text, encoding="utf-8")


def _block(match: re.Match[str]) -> str:
    return "\n".join([match[1], "", *rows_of(match[2], match[3]), "", "<!-- end -->"])


if __name__ == "__main__":
    main()
