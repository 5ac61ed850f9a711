"""The page of a group in a browser: drawn without errors, scripts and a network, and readable.

Lags are those of a live group, with what its broker says.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kgroup.history.query.group_page import (
    GroupPage,
    MembershipPeriod,
    _bounded,
    _loads,
    _rows,
    group_page,
)
from kgroup.history.query.lag import GroupLag
from kgroup.history.rebalance.rebalance import Participant
from kgroup.model.instant import rfc3339
from kgroup.render.history_page import group_html
from kgroup.sample import sample_log_dir
from tests.broker.servers import Broker
from tests.cli.command_line import Cli
from tests.history.page_reader import PageReader
from tests.history.recorded import Ask
from tests.record.raw import create_topics
from tests.record.wire import Wire
from tests.waiting import until

REPORTER = """<script>
const found = {errors: []};
addEventListener("error", event => found.errors.push(String(event.message)));
addEventListener("securitypolicyviolation", event => found.errors.push(event.violatedDirective));
addEventListener("load", () => {
  const all = selector => [...document.querySelectorAll(selector)];
  found.headings = all("h2").map(each => each.textContent);
  found.shapes = Object.fromEntries(all("section").map(section => [
    section.querySelector("h2").textContent, section.querySelectorAll("rect, circle").length]));
  found.background = getComputedStyle(document.body).backgroundColor;
  found.ink = getComputedStyle(document.querySelector("text")).fill;
  found.fetched = performance.getEntriesByType("resource").map(each => each.name);
  found.colliding = all("section").flatMap(section => {
    const boxes = [...section.querySelectorAll("text")].map(text => {
      const box = text.getBoundingClientRect();
      const [frame, view] = [text.ownerSVGElement, text.ownerSVGElement.closest("div")]
        .map(each => each.getBoundingClientRect());
      const [right, bottom] = [Math.min(box.right, frame.right), Math.min(box.bottom, view.bottom)];
      return {text: text.textContent, left: box.left, right, top: box.top, bottom};
    });
    return boxes.flatMap((one, index) => boxes.slice(index + 1)
      .filter(other => one.left < other.right && other.left < one.right
        && one.top + 3 < other.bottom && other.top + 3 < one.bottom)
      .map(other => [one.text, other.text]));
  });
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
});
</script>
"""

POLICY = "style-src 'unsafe-inline'"


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


def seen(page: Path, *options: str) -> dict[str, Any]:
    """Look at a page, which has no script of its own: what REPORTER finds."""
    reporting = page.with_name("reporting.html")
    html = page.read_text("utf-8")
    assert (html.count(POLICY), "<script" in html) == (1, False)
    html = html.replace(POLICY, f"{POLICY}; script-src 'unsafe-inline'")
    reporting.write_text(html.replace("<main>", f"{REPORTER}<main>", 1), "utf-8")
    match = re.search(r'<pre id="found">(.*?)</pre>', chromium(reporting, "--dump-dom", *options))
    assert match
    told: dict[str, Any] = json.loads(unescape(match[1]))
    return told


OWNERS, CAUSES, MEMBERS = "Who owned what", "Rebalances and their causes", "Members by client id"
LAGS = "Lag, where log end offsets were recorded"
DARK = "--blink-settings=preferredColorScheme=0"


def test_the_page_is_drawn(page: Path) -> None:
    told = seen(page)
    assert (told["errors"], told["fetched"], told["colliding"]) == ([], [], [])
    assert told["headings"] == [
        *(CAUSES, "Commits per 1 s", MEMBERS, OWNERS, "Rebalances as a table")
    ]
    assert (told["shapes"][CAUSES], told["shapes"][OWNERS]) == (5, 11)
    assert (told["background"], told["ink"]) == ("rgb(255, 255, 255)", "rgb(28, 33, 39)")
    dark = seen(page, DARK)
    assert (dark["background"], dark["ink"]) == ("rgb(20, 24, 29)", "rgb(230, 233, 237)")


def crowded(page: GroupPage, partitions: int, members: int) -> GroupPage:
    """Let many members, with long names, own many partitions, and each of them restart once."""
    [stretch, *_] = page.rows[0].stretches
    begin_ms, end_ms = page.since_ms or 0, page.until_ms or 0
    middle_ms = (begin_ms + end_ms) // 2
    name = "W" * 60
    lives, stretches = [], []
    for number in range(2 * members):
        client = f"{name}-{number % members % 3}"
        host = f"/10.0.{number % members // 200}.{number % members % 200}"
        from_ms, to_ms = (begin_ms, middle_ms) if number < members else (middle_ms, None)
        lives.append(
            MembershipPeriod(Participant(f"m{number}", None, client, host), from_ms, to_ms)
        )
        owned = [
            replace(stretch, topic=f"{name}-topic", partition=partition)
            for partition in range(partitions)
            if (partition * 7 if to_ms is None else partition) % members == number % members
        ]
        stretches += [
            replace(
                each,
                member_id=f"m{number}",
                client_id=client,
                client_host=host,
                from_ms=from_ms,
                to_ms=to_ms,
                to_log_offset=None if to_ms is None else 1,
            )
            for each in owned
        ]
    stretches.sort(key=lambda each: (each.partition, each.from_ms or 0))
    rows, _ = _bounded(_rows(stretches))
    lags = tuple(GroupLag(begin_ms + 1000 * at, 10**9 - at, partitions, 0) for at in range(50))
    return replace(
        page, lives=tuple(lives), rows=tuple(rows), loads=tuple(_loads(stretches)), lags=lags
    )


@pytest.mark.parametrize(("partitions", "members"), [(6, 3), (600, 20), (6000, 200)])
def test_a_crowded_page_can_be_read(
    recorded_engine: Ask, tmp_path: Path, partitions: int, members: int
) -> None:
    page = group_page(recorded_engine(sample_log_dir()), "order-service").data[0]
    page = crowded(page, partitions, members)
    path = tmp_path / "page.html"
    path.write_text("".join(group_html(page)), "utf-8")
    assert path.stat().st_size < 700_000
    told = seen(path)
    assert (told["errors"], told["fetched"], told["colliding"]) == ([], [], [])
    assert told["shapes"][MEMBERS] >= 2 * members


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
    before_ms = time.time_ns() // 1_000_000
    assert cli(*build, "-b", orders_broker.bootstrap).status == 0
    after_ms = time.time_ns() // 1_000_000
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
    # The build recorded log ends, too; by then the consumer had committed all of them.
    newest = lags()
    assert [row[1:] for row in newest] == [
        (at, end, end, 0) for at, (end, _) in second.offsets.items()
    ]
    assert before_ms <= newest[0][0] <= after_ms
    assert lags("--since", first.time_ms) == told[0] + told[1] + newest

    # Of the cluster itself, as its broker says it now.
    with closing(KafkaProducer(bootstrap_servers=orders_broker.bootstrap)) as producer:
        for _ in range(3):
            producer.send("behind", b"record", partition=0)
    live = cli("history", "lag", "slow", "-b", orders_broker.bootstrap, "-o", "jsonl")
    assert live.status == 0, live.err
    assert [
        tuple(row[name] for name in ("partition", "log_end_offset", "committed_offset", "lag"))
        for row in map(json.loads, live.out.splitlines())
    ] == [(0, 17 + 3, 17, 3), (1, 6, 6, 0)]

    page = tmp_path / "page.html"
    assert cli("history", "report", "slow", "--warehouse", root, "--html", page).status == 0
    shown = seen(page)
    assert (shown["errors"], shown["fetched"], shown["colliding"]) == ([], [], [])
    reader = PageReader(page.read_text("utf-8"))
    assert reader.sections[LAGS].hovers == [
        f"{rfc3339(moment.time_ms)}: {moment.lag} records in 2 partitions"
        for moment in (first, second)
    ] + [f"{rfc3339(newest[0][0])}: 0 records in 2 partitions"]
    assert f"; lag 0 at {rfc3339(newest[0][0])[:10]} " in reader.paragraphs[0]
    assert f", at worst {max(first.lag, second.lag)} at " in reader.paragraphs[0]
