"""The page of a group in a browser: it is drawn, without errors and without a network.

Lags are those of a live group, with what its broker says.
"""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import closing
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kgroup.history.query.group_page import group_page
from kgroup.model.instant import rfc3339
from kgroup.render.history_page import group_html
from kgroup.sample import sample_log_dir
from tests.broker.servers import Broker
from tests.cli.command_line import Cli
from tests.history.recorded import Ask
from tests.record.raw import create_topics
from tests.record.wire import Wire
from tests.waiting import until

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
  found.hover = document.getElementById("picture").data.flatMap(trace => trace.hovertext || []);
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
    html = "".join(
        group_html(group_page(recorded_engine(sample_log_dir()), "order-service").data[0])
    )
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(html, "utf-8")
    return path


def chromium(page: Path, *options: str) -> str:
    """Run the browser; it can look up no host. A pipe would be held open by its children."""
    out = page.with_name("chromium.out")
    with out.open("wb") as stdout, page.with_name("chromium.err").open("wb") as stderr:
        subprocess.run(
            [
                *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu"),
                f"--user-data-dir={page.parent / 'profile'}",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                *("--window-size=1300,1000", "--virtual-time-budget=10000"),
                *options,
                page.as_uri(),
            ],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            timeout=120,
            check=True,
        )
    return out.read_text("utf-8")


def seen(page: Path) -> dict[str, Any]:
    """Look at a page: what REPORTER finds."""
    reporting = page.with_name("reporting.html")
    reporting.write_text(page.read_text("utf-8").replace("<main>", f"{REPORTER}<main>", 1), "utf-8")
    match = re.search(r'<pre id="found">(.*?)</pre>', chromium(reporting, "--dump-dom"))
    assert match
    told: dict[str, Any] = json.loads(unescape(match[1]))
    return told


def test_the_page_is_drawn(page: Path) -> None:
    told = seen(page)
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


@dataclass(frozen=True)
class Moment:
    """What a broker said beside a snapshot: end and commit of each partition."""

    snapshot: Path
    time_ms: int
    offsets: dict[int, tuple[int, int]]

    @property
    def lag(self) -> int:
        return sum(end - committed for end, committed in self.offsets.values())


def moments(server: Broker, run: Cli, folder: Path) -> list[Moment]:
    """Let a consumer lag, and take two snapshots; then it commits all that there is."""
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {"behind": 2})
    found = []
    places = [TopicPartition("behind", number) for number in range(2)]
    with (
        closing(KafkaProducer(bootstrap_servers=server.bootstrap)) as producer,
        closing(
            KafkaConsumer(
                "behind",
                bootstrap_servers=server.bootstrap,
                group_id="slow",
                client_id="slow-1",
                enable_auto_commit=False,
            )
        ) as consumer,
    ):

        def is_assigned() -> bool:
            consumer.poll(200)
            return len(consumer.assignment()) == 2

        # kafka-python that joins before it knows of a topic may never be given its partitions.
        until(lambda: consumer.partitions_for_topic("behind") == {0, 1})
        until(is_assigned)
        for number, (counts, commits) in enumerate([((10, 6), (4, 1)), ((7, 0), (5, 6))]):
            for place, count, commit in zip(places, counts, commits, strict=True):
                for _ in range(count):
                    producer.send("behind", b"record", partition=place.partition)
                consumer.commit({place: OffsetAndMetadata(commit, "", -1)})
            producer.flush()
            snapshot = folder / f"{number}.json"
            assert run("snapshot", "slow", "-b", server.bootstrap, "-f", snapshot).status == 0
            ends = consumer.end_offsets(places)
            offsets = {
                place.partition: (ends[place], consumer.committed(place)) for place in places
            }
            found.append(Moment(snapshot, json.loads(snapshot.read_text())["taken_ms"], offsets))
        consumer.commit({place: OffsetAndMetadata(ends[place], "", -1) for place in places})
    return found


def test_lags_are_those_that_the_broker_told(
    orders_broker: Broker, cli: Cli, tmp_path: Path
) -> None:
    first, second = moments(orders_broker, cli, tmp_path)
    assert (first.offsets, second.offsets) == ({0: (10, 4), 1: (6, 1)}, {0: (17, 5), 1: (6, 6)})
    root = tmp_path / "w"
    build = ("history", "build", "--to", root)
    assert cli(*build, "-b", orders_broker.bootstrap).status == 0
    assert cli(*build, "--from", first.snapshot, second.snapshot).status == 0

    def lags(*options: str | int) -> list[tuple[int, int, int, int, int]]:
        done = cli("history", "lag", "slow", "--warehouse", root, "-o", "json", *options)
        assert done.status == 0, done.err
        names = ("time_ms", "partition", "log_end_offset", "committed_offset", "lag")
        return [tuple(row[name] for name in names) for row in json.loads(done.out)["data"]]

    told = [
        [(moment.time_ms, at, end, done, end - done) for at, (end, done) in moment.offsets.items()]
        for moment in (first, second)
    ]
    assert lags("--at", first.time_ms) == told[0]
    assert lags("--at", second.time_ms - 1) == told[0]
    assert lags("--since", first.time_ms) == told[0] + told[1]
    assert lags() == told[1]  # the newest ends, and what counted then

    page = tmp_path / "page.html"
    assert cli("history", "report", "slow", "--warehouse", root, "--html", page).status == 0
    shown = seen(page)
    assert (shown["errors"], shown["fetched"], shown["drawn"]) == ([], [], "yes")
    assert shown["titles"][-1] == "Lag, where log end offsets were recorded"
    assert shown["hover"][-2:] == [
        f"{rfc3339(moment.time_ms)}: {moment.lag} records in 2 partitions"
        for moment in (first, second)
    ]
