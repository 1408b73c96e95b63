"""Copy the tables of reports/*.md into README.md and PRIVACY.md, between their markers. Tests compare them."""

import re

from record import HOME


def main() -> None:
    """Rewrite both pages."""
    for name in ("README.md", "PRIVACY.md"):
        page = HOME / name
        text = page.read_text(encoding="utf-8")
        for report in re.findall(r"<!-- (reports/\S+\.md) -->", text):
            rows = [line for line in (HOME / report).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
            block = "\n".join([f"<!-- {report} -->", "", *rows, "", "<!-- end -->"])
            text = re.sub(
                rf"<!-- {re.escape(report)} -->.*?<!-- end -->", lambda _, block=block: block, text, flags=re.DOTALL
            )
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
