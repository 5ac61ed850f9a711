"""What changes something, seen from a proxy: only by --execute, only the groups that are named.

Each command that may change something is run as a plan first, which sends questions only, and then
with --execute: which APIs it sends then, and for which groups, is compared with what is expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.broker.maven import version_tuple
from tests.broker.proxy import RecordingProxy, groups_written, why_not_harmless
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND
from tests.record.raw import RawMember, await_coordinator, commit, consumer_protocol, create_topics
from tests.record.raw import join as join_group
from tests.record.wire import Wire

VERSIONS = ("1.1.1", "2.8.2", "4.3.1")
COMMITS = {("orders", 0): 3, ("orders", 1): 4, ("payments", 0): 5}

LINES: Mapping[str, tuple[str, dict[str, set[str]]]] = {
    "offsets reset": ("one two --to-earliest", {"OffsetCommit": {"one", "two"}}),
    "offsets import": ("{plan} one", {"OffsetCommit": {"one"}}),
    "offsets copy": ("{plan} kafka --group two --as three", {"OffsetCommit": {"three"}}),
    "offsets delete": ("one two", {"DeleteGroups": {"one", "two"}}),
    "members remove": ("busy --all", {"LeaveGroup": {"busy"}}),
    "plan apply": ("{migration} --step 1", {"OffsetCommit": {"four"}}),
}
"""Each command that takes --execute, and what it writes for which groups."""


_STEP = {
    "number": 1, "title": "Copy", "expected": {},
    "copies": {"origin": "kafka", "goal": "kafka", "new_id": "four"},
}  # fmt: skip
_MIGRATION = {
    "group_id": "one", "target": "external-offsets", "goal": None, "summary": "",
    "type": "classic", "assignor": None, "members": [], "preconditions": [], "steps": [_STEP],
}  # fmt: skip


@dataclass(frozen=True)
class Watched:
    """A broker behind a proxy, a file with offsets of the groups "one" and "two", and a plan."""

    server: Broker
    proxy: RecordingProxy
    plan: Path
    migration: Path

    def offsets(self, run: Cli) -> dict[str, list[int]]:
        """Return what is committed, by group."""
        shown = run("offsets", "show", "-b", self.server.bootstrap, "--all", "-o", "jsonl")
        found: dict[str, list[int]] = {}
        for line in shown.out.splitlines():
            row = json.loads(line)
            found.setdefault(row["group_id"], []).append(row["committed_offset"])
        return found


@pytest.fixture(scope="module", params=VERSIONS)
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    version: str = request.param
    folder = tmp_path_factory.mktemp(f"writes-{version}")
    config = {"group.max.session.timeout.ms": "1800000"}
    with broker(version, folder, config=config) as server, RecordingProxy([server.port]) as proxy:
        with Wire(version, server.bootstrap) as wire:
            create_topics(wire, {"orders": 2, "payments": 1})
            await_coordinator(wire)
        producer = KafkaProducer(**server.client_options)
        for (topic, partition), count in COMMITS.items():  # or what is copied would be out of range
            for _ in range(count):
                producer.send(topic, b"x", partition=partition)
        producer.flush(30)
        producer.close()
        plan = folder / "plan.csv"
        plan.write_text("one,orders,0,0\ntwo,orders,1,0\n")
        migration = folder / "migration.json"
        document = {"schema_version": 1, "command": "plan external-offsets", "data": [_MIGRATION]}
        migration.write_text(json.dumps(document))
        yield Watched(server, proxy, plan, migration)


def test_every_command_that_changes_something_is_tried() -> None:
    changing = {
        name
        for name, command in EVERY_COMMAND.items()
        if any(param.name == "execute" for param in command.params)
        and not name.startswith("history")  # changes a warehouse
    }
    assert changing == set(LINES)


@pytest.mark.parametrize("name", LINES)
def test_what_is_written(watched: Watched, cli: Cli, name: str, tmp_path: Path) -> None:
    line, written = LINES[name]
    version, bootstrap = watched.server.version, watched.server.bootstrap
    with Wire(version, bootstrap) as wire:
        for group in ("one", "two", "other"):
            commit(wire, group, COMMITS)
    if name == "members remove":
        member = RawMember(version, bootstrap, "busy-client")
        protocols = {"range": consumer_protocol(["orders"])}
        join_group(member, "busy", protocols, consumer_protocol(["orders"], 0))
    before = watched.offsets(cli)
    given = line.format(plan=watched.plan, migration=watched.migration).split()
    words = [*name.split(), *given, "-b", watched.proxy.bootstrap]

    start = len(watched.proxy.requests)
    planned = cli(*words)
    sent = watched.proxy.requests[start:]
    assert planned.status == 0, planned.err
    assert re.search(r"nothing was changed in the cluster [\w.:]+ \(id [\w-]+\);", planned.err)
    flaws = [why_not_harmless(request, version) for request in sent]
    assert (len(flaws) > 0, [flaw for flaw in flaws if flaw]) == (True, [])
    assert watched.offsets(cli) == before

    start = len(watched.proxy.requests)
    backup = [] if name == "members remove" else ["--backup", tmp_path / "backup.json"]
    done = cli(*words, "--execute", *backup)
    assert done.status == 0, done.err
    assert groups_written(watched.proxy.requests[start:]) == written
    assert watched.offsets(cli)["other"] == before["other"]


def test_topics_are_deleted_from_a_group(watched: Watched, cli: Cli, tmp_path: Path) -> None:
    """Kafka before 2.4 cannot."""
    with Wire(watched.server.version, watched.server.bootstrap) as wire:
        commit(wire, "one", COMMITS)
    start = len(watched.proxy.requests)
    line = ["offsets", "delete", "-b", watched.proxy.bootstrap, "one", "--topic", "orders"]
    done = cli(*line, "--execute", "--backup", tmp_path / "backup.json")
    sent = groups_written(watched.proxy.requests[start:])
    if version_tuple(watched.server.version) < (2, 4):
        assert (done.status, "unsupported" in done.err, sent) == (4, True, {})
        return
    assert (done.status, sent) == (0, {"OffsetDelete": {"one"}}), done.err
    assert watched.offsets(cli)["one"] == [5]


def test_an_active_group_is_left_alone(watched: Watched, cli: Cli, tmp_path: Path) -> None:
    member = RawMember(watched.server.version, watched.server.bootstrap, "active-client")
    protocols = {"range": consumer_protocol(["orders"])}
    join_group(member, "active", protocols, consumer_protocol(["orders"], 0))
    start = len(watched.proxy.requests)
    where = ["-b", watched.proxy.bootstrap, "--execute", "--backup", tmp_path / "backup.json"]
    done = cli("offsets", "reset", *where, "active", "--topic", "orders", "--to-latest")
    assert (done.status, "active: The group is Stable" in done.err) == (4, True), done.err
    assert groups_written(watched.proxy.requests[start:]) == {}
    assert not (tmp_path / "backup.json").exists()
    member.close()
