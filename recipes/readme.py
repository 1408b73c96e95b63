"""Copy the tables of reports/*.md into the README, between its markers. `tests/test_readme.py` compares them."""

import re

from record import HOME


def main() -> None:
    """Rewrite README.md."""
    readme = HOME / "README.md"
    text = readme.read_text(encoding="utf-8")
    for report in re.findall(r"<!-- (reports/\S+\.md) -->", text):
        rows = [line for line in (HOME / report).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        block = "\n".join([f"<!-- {report} -->", "", *rows, "", "<!-- end -->"])
        text = re.sub(
            rf"<!-- {re.escape(report)} -->.*?<!-- end -->", lambda _, block=block: block, text, flags=re.DOTALL
        )
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
