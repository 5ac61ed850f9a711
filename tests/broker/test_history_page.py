"""The page of a group in a browser: it is drawn, without errors and without a network."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from kgroup.history.group_page import group_page
from kgroup.render.history_page import group_html
from kgroup.sample import sample_log_dir
from tests.history.recorded import Ask

REPORTER = """<script>
const found = {errors: [], fetched: []};
addEventListener("error", event => found.errors.push(String(event.message)));
addEventListener("unhandledrejection", event => found.errors.push(String(event.reason)));
for (const name of ["error", "warn"]) console[name] = text => found.errors.push(String(text));
addEventListener("load", () => setTimeout(() => {
  const color = () => getComputedStyle(document.body).backgroundColor;
  found.drawn = document.getElementById("picture").dataset.drawn;
  found.bars = document.querySelectorAll("#picture svg .bars path").length;
  found.points = document.querySelectorAll("#picture svg .scatterlayer .point").length;
  found.titles = [...document.querySelectorAll("#picture svg .annotation-text")]
    .map(each => each.textContent);
  found.light = color();
  document.getElementById("theme").click();
  found.dark = color();
  found.open = [];
  const isOpen = () => document.querySelector("details").open;
  dispatchEvent(new Event("beforeprint"));
  found.print = [color(), isOpen()];
  found.fetched = performance.getEntriesByType("resource").map(each => each.name);
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
}, 1500));
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, recorded_engine: Ask) -> Path:
    html = "".join(group_html(group_page(recorded_engine(sample_log_dir()), "order-service")))
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(html.replace("<main>", f"{REPORTER}<main>", 1), "utf-8")
    return path


def chromium(page: Path, *options: str) -> str:
    """Run the browser; it can look up no host."""
    done = subprocess.run(
        [
            *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu"),
            f"--user-data-dir={page.parent / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            *("--window-size=1300,1000", "--virtual-time-budget=10000"),
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_the_page_is_drawn(page: Path) -> None:
    found = re.search(r'<pre id="found">(.*?)</pre>', chromium(page, "--dump-dom"))
    assert found
    told = json.loads(found[1])
    assert (told["errors"], told["fetched"], told["drawn"]) == ([], [], "yes")
    assert told["points"] == 5  # rebalances
    assert told["bars"] >= 11 + 3  # stretches and members
    assert told["titles"][:3] == ["Who owned what", "Rebalances and their causes", "Members"]
    assert (told["light"], told["dark"]) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")
    assert told["print"] == ["rgb(255, 255, 255)", True]


def test_the_page_is_printed(page: Path) -> None:
    path = page.parent / "page.pdf"
    chromium(page, f"--print-to-pdf={path}")
    assert path.read_bytes().startswith(b"%PDF")
    assert path.stat().st_size > 20_000
