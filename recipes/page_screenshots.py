"""Screenshots of both pages of `make demo`: desktop, phone, dark, and the first sheet of the PDF, in outputs/screenshots."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from synthdp.pages import pdf

HERE = Path(__file__).parent.parent
PAGES = {"release": "report/statement.html", "internal": "evaluation/evaluation.html"}
SCREENSHOTS = {  # width, height, further arguments
    "desktop": (1280, 5600, ()),
    "phone": (390, 9000, ()),
    "dark": (1280, 2600, ("--blink-settings=preferredColorScheme=0",)),
}


def main(demo: Path, out: Path) -> None:
    """Write NAME-desktop.png, NAME-phone.png, NAME-dark.png, NAME.pdf and, where pdftoppm is, NAME-paper.png."""
    out.mkdir(parents=True, exist_ok=True)
    for name, place in PAGES.items():
        page = demo / place
        if not page.is_file():
            sys.exit(f"{page} is missing: run `make demo` first")
        for kind, (width, height, further) in SCREENSHOTS.items():
            picture = out / f"{name}-{kind}.png"
            size = f"--window-size={width},{height}"
            with tempfile.TemporaryDirectory() as profile:
                pdf.run(*further, size, f"--screenshot={picture}", page.resolve().as_uri(), profile=Path(profile))
        printed = pdf.write_pdf(page.read_text(encoding="utf-8"), out / f"{name}.pdf")
        if shutil.which("pdftoppm"):
            first = ["pdftoppm", "-png", "-r", "80", "-singlefile", str(printed), str(out / f"{name}-paper")]
            subprocess.run(first, check=True)
    print("\n".join(str(path) for path in sorted(out.iterdir())))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "outputs" / "demo", HERE / "outputs" / "screenshots")
