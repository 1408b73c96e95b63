"""Both pages in headless Chromium: nothing is asked of the network, no error, tables sort, a phone is wide enough, PDF is text."""

import json
import re
from html import escape

import pytest
from clinic import make_frame, make_schema
from judged import judged

from synthdp import Budget, Synthesizer
from synthdp.errors import BadInput
from synthdp.evaluate.evaluation_page import STAMP, html
from synthdp.pages import SORT, pdf, policy
from synthdp.report.statement_page import render, write

pytestmark = pytest.mark.browser
needs_browser = pytest.mark.skipif(pdf.engine() is None, reason="no browser of the Chromium family on the PATH")
PROBE = """
const told = { wide: document.documentElement.scrollWidth, window: innerWidth, sorted: [] };
told.cut = [...document.querySelectorAll("tbody td, tbody th")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent);
for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.querySelectorAll("thead th[scope=col]")) {
    const column = head.dataset.column ?? head.cellIndex;
    const cells = () => [...table.tBodies].map((body) => [...body.rows].filter((row) => !row.matches(".group, .mean"))
      .map((row) => (row.cells[column].dataset.value ?? row.cells[column].textContent).trim()));
    const before = cells();
    const button = head.querySelector("button");
    button.click();
    const up = { direction: head.getAttribute("aria-sort"), cells: cells() };
    button.click();
    told.sorted.push({ before, up, down: { direction: head.getAttribute("aria-sort"), cells: cells() } });
  }
}
parent.document.documentElement.dataset.told = JSON.stringify(told);
"""


@pytest.fixture(scope="module")
def release():
    return Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-5)).fit(make_frame(200))


def bought():
    """A release with figures of fitness that were paid for."""
    made = Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-5))
    return made.fit(make_frame(200), fitness=0.05)


@pytest.fixture(scope="module")
def pages(release):
    """The release page of a fit, and the internal page of a judgement: name -> (text, words that it must show)."""
    return {
        "release": (render(release.statement), ["Can I share it?", "Withdrawal id", str(release.statement.release_id)]),
        "fitness": (render(bought().statement), ["measured under the guarantee", "hidden by noise"]),
        "internal": (html(judged()), [STAMP, "Utility"]),
    }


@pytest.fixture(params=["release", "fitness", "internal"])
def page(request, pages):
    return pages[request.param]


def opened(text, tmp_path):
    """The page in a browser: what the document has become, the errors, and the addresses asked for."""
    file, log = tmp_path / "page.html", tmp_path / "net.json"
    file.write_text(text, encoding="utf-8")
    done = pdf.run(
        "--dump-dom", "--enable-logging=stderr", f"--log-net-log={log}", "--window-size=1280,900", file.as_uri(),
        profile=tmp_path / "profile",
    )  # fmt: skip
    # one event a line; "not an origin" began in the browser itself, which looks for updates of its own
    started = re.findall(
        r'"initiator":"([^"]+)".*?"url":"((?:https?|wss?|ftp):[^"]+)"', log.read_text(encoding="utf-8")
    )
    asked = {address for origin, address in started if origin != "not an origin"}
    errors = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return done.stdout, errors, asked


def framed(text):
    """The page in a frame of a phone's width: the browser's own window is never narrower than 500 pixels."""
    return f'<!doctype html><iframe width="390" height="844" style="border: 0" srcdoc="{escape(text)}"></iframe>'


@pytest.mark.heavy
@needs_browser
def test_a_page_that_asks_and_fails_would_be_seen(tmp_path):
    """The measure itself: a request, an error and a table too wide are found."""
    text = (
        "<!doctype html><meta name=viewport content='width=device-width'><p style='width:900px'>wide</p>"
        "<img src='http://hospital.invalid/a.png'>"
        f"<script>{PROBE}; throw new Error('seen')</script>"
    )
    shown, errors, asked = opened(framed(text), tmp_path)
    assert any("hospital.invalid" in address for address in asked)
    assert any("seen" in line for line in errors)
    assert "&quot;wide&quot;:9" in shown


@pytest.mark.heavy
@needs_browser
def test_a_page_loads_without_a_network_and_its_script_runs(page, tmp_path):
    text, words = page
    shown, errors, asked = opened(text, tmp_path)
    assert not asked
    assert not errors
    for word in words:
        assert word in shown
    assert re.search(r'<th[^>]*scope="col"[^>]*><button type="button">', shown), (
        "allowed by its hash, the script has run"
    )


@pytest.mark.heavy
@needs_browser
def test_tables_sort_and_a_phone_needs_no_sideways_scrolling(page, tmp_path):
    text, _ = page
    assert policy(SORT) in text.replace("&#39;", "'")
    probed = text.replace("&#39;", "'").replace(policy(SORT), policy(SORT, PROBE))
    shown, errors, _ = opened(framed(probed.replace("</body>", f"<script>{PROBE}</script></body>")), tmp_path)
    assert not errors
    told = json.loads(re.search(r'data-told="([^"]*)"', shown)[1].replace("&quot;", '"').replace("&amp;", "&"))
    assert told["window"] == 390
    assert told["wide"] <= 390
    assert told["cut"] == [], "cells that run into the next one"
    assert told["sorted"]
    for column in told["sorted"]:
        assert (column["up"]["direction"], column["down"]["direction"]) == ("ascending", "descending")
        for before, up, down in zip(column["before"], column["up"]["cells"], column["down"]["cells"], strict=True):
            assert sorted(before) == sorted(up) == sorted(down), "no row is lost"
            for cells, reverse in ((up, False), (down, True)):
                values = numbers(cells)
                assert values == sorted(values, reverse=reverse)
    assert any(column["up"]["cells"] != column["before"] for column in told["sorted"])


def numbers(cells):
    """The cells that are numbers, in the order shown."""
    return [float(cell.replace(",", "")) for cell in cells if re.fullmatch(r"-?[\d,]*\.?\d+(e[-+]\d+)?", cell)]


@pytest.mark.heavy
@needs_browser
def test_the_pdf_is_text_tagged_and_tells_no_time(page, tmp_path):
    from pypdf import PdfReader

    text, words = page
    printed = pdf.write_pdf(text, tmp_path / "page.pdf")
    reader = PdfReader(printed)
    content = " ".join(sheet.extract_text() for sheet in reader.pages)
    for word in words:
        assert word.replace(" ", "") in "".join(content.split())
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert reader.metadata["/CreationDate"].startswith("D:19800101")
    assert str(tmp_path) not in content
    assert [file.name for file in tmp_path.iterdir()] == ["page.pdf"]


@pytest.mark.heavy
@needs_browser
def test_a_release_with_a_pdf_is_three_files(release, tmp_path):
    write(release.statement, tmp_path / "report", pdf=True)
    assert {file.name for file in (tmp_path / "report").iterdir()} == {
        "statement.html", "statement.json", "statement.pdf",
    }  # fmt: skip


def test_a_pdf_that_cannot_be_is_refused_before_anything_is_written(release, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="pdf=true needs a browser"):
        write(release.statement, tmp_path / "report", pdf=True)
    assert not list(tmp_path.iterdir())


def test_without_a_browser_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="apt install chromium"):
        pdf.write_pdf("<p>page", tmp_path / "page.pdf")
    assert not list(tmp_path.iterdir())


def test_a_browser_that_prints_nothing_leaves_no_file(tmp_path, monkeypatch):
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(BadInput, match="printed nothing"):
        pdf.write_pdf("<p>page", tmp_path / "page.pdf")
    assert [file.name for file in tmp_path.iterdir()] == ["chromium"]
