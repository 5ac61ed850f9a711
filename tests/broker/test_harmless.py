"""Commands that read, and changes without --execute, send requests that only read.

Every command that can ask a cluster, and every completion that does, goes through a proxy that sees
each request. The commands, options and completions come from the tree of commands: a new one fails
here until it has a line of arguments. Brokers create topics wherever a client lets them. They are
asked when nobody has used a group yet, with groups that name topics which do not exist, and with
members of every type of group.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click
import pytest
from kafka import KafkaProducer
from kafka.protocol.metadata import MetadataRequest
from kazoo.client import KazooClient

from kgroup.cli.option.suggestion import (
    suggest_groups,
    suggest_members,
    suggest_topics,
    suggest_topics_of_group,
)
from kgroup.source.broker import client
from tests.broker import zookeeper_proxy
from tests.broker.live_groups import live_groups
from tests.broker.maven import version_tuple
from tests.broker.proxy import WRITES, RecordingProxy, Request, why_not_harmless
from tests.broker.servers import Broker, broker
from tests.broker.zookeeper_proxy import READS
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND
from tests.default_signals import default_signals
from tests.examples import in_depth
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    consumer_protocol,
    create_topics,
    join,
)
from tests.record.wire import Wire
from tests.waiting import PATIENCE_S, until

VERSIONS = ("4.3.1", *in_depth(("2.8.2",), ()), "0.10.2.2", "0.9.0.1", "0.8.2.2")
CONFIG = {"auto.create.topics.enable": "true", "group.max.session.timeout.ms": "1800000"}

LINES: Mapping[str, Sequence[str]] = {
    "list": (
        "--min-lag 0 --sort -time-lag",
        "--idle-for 1ms --log-budget 1",
        "--state Stable --type classic --no-lag",
        "--regex r.*",
        "--topic orders",
        "--members --no-lag",
    ),
    "describe": (
        "reader simple nobody --sort -lag",
        "--all",
        "--all --log-budget 1 --isolation read-committed --members",
        "--regex r.* --offsets",
        "reader --state",
        "reader simple --time-lag",
    ),
    "decode-offsets": (
        "",
        "--group reader --since 1h --from-offset 1 --isolation read-committed --strict",
        "--regex r.* --topic orders --partition 0 --type OffsetCommit --until now --latest",
        "--as-of now",
        "--stats --offsets-partition 0",
    ),
    "coordinator": ("reader simple nobody", "--type transaction payments nobody"),
    "assign": (
        "reader --dry-run",
        "reader --strategy sticky --kafka-version 1.1.1",
        "reader --client kafka-clients@2.8.2",
        "reader --may-join librdkafka:roundrobin",
    ),
    "check": (
        "reader simple nobody",
        "reader --log-budget 1 --limit past=1h",
        "reader --no-past",
        "--interval 1 --fail-on error --rule no-owner --limit stuck=1s --nagios",
        "--all --log-budget 1 --prometheus",
        "--regex r.* --strategy range",
        "reader --rule consumer-protocol",
    ),
    "doctor": ("",),
    "history build": ("--to {warehouse}",),
    "history owner": (
        "orders 0 --at now --log-budget 1",
        "orders 0 --group reader --between 1h now",
    ),
    "history timeline": ("reader --since 1h --until now --topic orders --log-budget 1",),
    "history commits": (
        "reader --since 1h --until now --topic orders --longer-than 1s --pauses --log-budget 1",
        "simple --jumps",
    ),
    "history lag": (
        "simple --topic orders --log-budget 1",
        "simple --at now",
        "simple --since 1h --until now",
    ),
    "history rebalances": ("reader --since 1h --until now --log-budget 1", ""),
    "history storms": ("reader --rate 2/1h --since 1h --until now --log-budget 1",),
    "history report": ("reader --html {page} --since 1h --until now --log-budget 1",),
    "history as-of": ("now reader --state --members --offsets --log-budget 1",),
    "simulate": ("--from reader",),
    "plan static-membership": (
        "reader simple nobody",
        "reader --instance-id {{client}}-{{number}} --at-once 2",
        "reader --restart-time 9s --poll-interval 1s",
        "reader --back",
    ),
    "plan partitions": (
        "orders=3",
        "orders=3 reader nobody --auto-offset-reset latest --metadata-max-age 9s",
        "orders=3 reader --restart-time 9s --poll-interval 1s --at-once 2",
        "never=3",
    ),
    "plan consumer-protocol": (
        "reader",
        "reader --back --stop --assignor range --client java --client-version 4.1",
        "reader --poll-interval 1s --restart-time 9s --at-once 2",
    ),
    "offsets show": ("reader simple nobody", "--all", "--regex r.*"),
    "offsets export": (
        "reader simple -f {export}",
        "--all --format jsonl -f -",
        "--regex r.* -f -",
    ),
    "offsets import": (
        "{plan} --all",
        "{plan} simple --topic orders --as other --without-epochs --clamp",
        "{plan} --regex r.*",
    ),
    "offsets diff": (
        "kafka {plan} --all --times",
        "kafka kafka --group reader --as simple",
        "kafka kafka --regex r.*",
    ),
    "offsets copy": (
        "{plan} kafka --all",
        "kafka kafka --group simple --as other --topic orders --clamp",
        "kafka kafka --group simple --as other --by-time",
        "kafka kafka --regex r.*",
    ),
    "offsets reset": (
        "simple reader nobody --to-earliest --times",
        "simple --to-latest --topic orders --topic never --topic-regex o.*",
        "simple --to-current --uncommitted",
        "simple --to-time 1h",
        "simple --to-offset 1 --topic orders:0",
        "simple --shift-by 1",
        "simple --to-group reader",
        "simple --to-file {plan}",
        "--regex s.* --to-earliest",
        "--all --to-current",
    ),
    "offsets delete": (
        "simple reader nobody",
        "simple --topic orders --topic never",
        "--regex s.*",
        "--idle-for 1ms --log-budget 1",
    ),
    "members remove": ("reader --all --reason why", "reader --member m --instance i"),
    "plan": ("reader simple nobody", "--all"),
    "plan assignor": ("range reader simple --settings range --client java",),
    "plan verify": ("{migration} --step 1 --wait 1",),
    "plan external-offsets": (
        "reader simple --sql {table}",
        "reader --sql {table} --to-kafka --rolling",
    ),
    "plan apply": ("{migration} --step 1",),
    "snapshot": (
        "reader simple nobody -f {file}",
        "--all --log-budget 1 -f {file}",
        "--regex r.* -f {file}",
    ),
}
"""Arguments of each command that asks a cluster; each of its options stands in one of them."""

ALONE = {"history stream", "top"}
"""Never end: `test_history_stream` runs the one, which needs Spark, behind a proxy; the other is
tried below."""

COMPLETIONS: Mapping[Callable[..., object], str] = {
    suggest_groups: "reader",
    suggest_members: "reader-client",
    suggest_topics: "orders",
    suggest_topics_of_group: "orders",
}
"""The completions that ask a cluster, with how a suggestion starts where "reader" is a group."""

_COPIES = {"origin": "kafka", "goal": "kafka", "new_id": "other"}
_PLAN = {
    "group_id": "simple", "target": "external-offsets", "goal": None, "summary": "",
    "type": "classic", "assignor": None, "members": [], "preconditions": [],
    "steps": [{"number": 1, "title": "Copy", "expected": {}, "copies": _COPIES}],
}  # fmt: skip
_MIGRATION = json.dumps({"schema_version": 1, "command": "plan external-offsets", "data": [_PLAN]})

ELSEWHERE = {
    *("bootstrap_server", "command_config", "overrides", "profile", "timeout_s"),  # connection
    *("log_dir", "sample", "snapshot", "offsets_partitions", "transaction_partitions"),  # ask none
    "zookeeper",  # is asked in test_live_zookeeper
    *("key", "value", "include"),  # likewise
    *("form", "columns", "no_headers", "color", "output_path", "force"),  # are about output
    *("utc", "no_pager", "explain"),  # likewise
    *("follow", "watch_s"),  # never end: tried on their own
    *("locations", "more", "root", "master", "settings", "engine", "snapshots"),  # history
    *("spec", "settle", "compare", "bounce", "add", "remove", "restart", "partitions"),  # of what
    *("add_topics", "drop_topics", "subscribe", "fresh"),  # is known: assign
    *(
        "grid",
        "leader",
        "connectors",
        "drop_connectors",
        "max_delay_ms",
        "standbys",
        "streams_config",
    ),  # likewise
    *("lists", "crash", "stop", "until", "seed", "runs", "diagram"),  # likewise: simulate
    *("sql", "file", "sql_table", "sql_columns", "create_table"),  # ask none
    *("poll_ms", "restart_ms", "at_once"),  # likewise: plans
    *("lists_rules", "baseline", "warehouse", "cluster"),  # likewise: check
    *(
        "execute",
        "dry_run",
        "yes",
        "backup",
        "allow_skip",
        "delete_hidden",
    ),  # change something: tried in test_offset_writes
}
"""Options that change nothing in what is asked."""

UNTOUCHED = (
    "type",
    "state",
    "generation_id",
    "group_epoch",
    "assignment_epoch",
    "members",
    "offsets",
)
FETCH, FIND_COORDINATOR, METADATA, OFFSET_FETCH = 1, 10, 3, 9


def live_commands() -> dict[str, click.Command]:
    """Return the commands that can ask a cluster; those that want ZooKeeper hide the option."""
    return {
        name: command
        for name, command in EVERY_COMMAND.items()
        if name != "profile add"  # writes the settings to a file
        and any(
            param.name == "bootstrap_server" and not getattr(param, "hidden", False)
            for param in command.params
        )
    }


def completions(bootstrap: str) -> Iterator[tuple[Callable[..., object], list[str]]]:
    """Yield what each completion of a live command asks with, and the words typed before it."""
    for name, command in live_commands().items():
        words = [*name.split(), "-b", bootstrap]
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        for param in command.params:
            suggest = param._custom_shell_complete
            if suggest is None:
                continue
            if isinstance(param, click.Argument):
                before = ["reader"] * arguments.index(param)
            else:
                before = ["reader"] * len(arguments) + [param.opts[0]]
            yield suggest, [*words, *before, ""]


def test_every_live_command_and_option_is_tried() -> None:
    commands = live_commands()
    assert set(LINES) | ALONE == set(commands)
    for name, command in commands.items():
        if name in ALONE:
            continue
        used = {word for line in LINES[name] for word in line.split() if word.startswith("-")}
        options = [param for param in command.params if isinstance(param, click.Option)]
        untried = [
            option.name
            for option in options
            if option.name not in ELSEWHERE and not used.intersection(option.opts)
        ]
        assert untried == [], f"kgroup {name}: add a line of arguments with each of these"


CHANGES = {
    "Produce": 0, "OffsetCommit": 8, "JoinGroup": 11, "Heartbeat": 12, "LeaveGroup": 13,
    "SyncGroup": 14, "CreateTopics": 19, "DeleteTopics": 20, "DeleteRecords": 21,
    "InitProducerId": 22, "AddOffsetsToTxn": 25, "EndTxn": 26, "TxnOffsetCommit": 28,
    "CreateAcls": 30, "AlterConfigs": 33, "CreatePartitions": 37, "DeleteGroups": 42,
    "IncrementalAlterConfigs": 44, "OffsetDelete": 47, "ConsumerGroupHeartbeat": 68,
    "ShareGroupHeartbeat": 76, "ShareFetch": 78, "ShareAcknowledge": 79,
    "StreamsGroupHeartbeat": 88, "AlterShareGroupOffsets": 91, "DeleteShareGroupOffsets": 92,
}  # fmt: skip
"""API keys of what joins, keeps or leaves a group, commits, or changes a cluster (Kafka 4.3)."""


def test_nothing_that_writes_passes_for_a_question() -> None:
    for api_key in (*WRITES, *CHANGES.values()):
        assert why_not_harmless(Request(0, api_key, 0, None, b""), "4.3.1") is not None
    for creates in (False, True):
        request = MetadataRequest(version=4, topics=None, allow_auto_topic_creation=creates)
        request.with_header(correlation_id=1, client_id="c")
        message = bytes(request.encode(version=4, header=True))
        assert (why_not_harmless(Request.read(0, message), "4.3.1") is not None) is creates
    assert not READS.keys() & zookeeper_proxy.WRITES.keys()


@dataclass(frozen=True)
class Watched:
    """A broker that creates topics, behind a proxy."""

    server: Broker
    proxy: RecordingProxy

    def topics(self) -> set[str]:
        """Ask for all topics, by naming none."""
        version = int(version_tuple(self.server.version) >= (0, 10))
        with Wire(self.server.version, self.server.bootstrap) as wire:
            answer = wire.call("Metadata", version, topics=None if version else [])
        return {topic["name"] for topic in answer["topics"]}

    def await_topics(self, topics: set[str]) -> None:
        """Wait until these are all that there are."""
        until(lambda: self.topics() == topics)

    def run_all(self, run: Cli, group_id: str = "reader") -> dict[str, str]:
        """Run every command, and check what each has sent.

        Args:
            run: runs a command line.
            group_id: of the group that takes the place of "reader"; where it is another one, only
                lines that name it are run.

        Returns:
            What each line printed.
        """
        printed = {}
        folder = self.server.folder
        (folder / "plan.csv").write_text("simple,orders,0,1\nreader,orders,0,0\n")
        (folder / "plan.json").write_text(_MIGRATION)
        for name, lines in LINES.items():
            for line in lines:
                if group_id != "reader" and "reader" not in line.split():
                    continue
                files = {
                    "file": folder / "snapshot.json",
                    "export": folder / "export.json",
                    "plan": folder / "plan.csv",
                    "migration": folder / "plan.json",
                    "table": folder / "offsets.db",
                    "warehouse": folder / "warehouse",
                    "page": folder / "page.html",
                }
                given = line.format(**files).split()
                words = [group_id if word == "reader" else word for word in given]
                with self.harmless(f"kgroup {name} {line}"):
                    result = run(*name.split(), *words, "-b", self.proxy.bootstrap)
                assert "bug" not in result.err, f"kgroup {name} {line}\n{result.err}"
                assert f":{self.server.port}" not in result.out, "an answer passed the proxy by"
                printed[f"{name} {line}"] = result.out
        return printed

    def complete(self, run: Cli, *, every: bool) -> list[tuple[list[str], str, list[str]]]:
        """Ask for every completion, or for one of each kind, and check what each has sent.

        Returns:
            Of each that asks the cluster: the words typed, how a suggestion starts where "reader"
            is a group, and what was suggested.
        """
        suggested = []
        asked = list(completions(self.proxy.bootstrap))
        for suggest, words in asked if every else dict(asked).items():
            before = len(self.proxy.requests)
            lines = run("completion", "zsh", "--", *words).out.splitlines()
            sent = self.proxy.requests[before:]
            begin = COMPLETIONS.get(suggest)
            if begin is None:
                assert sent == [], words
                continue
            self.check(sent, f"completion of {words}")
            suggested.append((words, begin, lines[1:]))
        assert {begin for _, begin, _ in suggested} == set(COMPLETIONS.values())
        return suggested

    @contextmanager
    def harmless(self, what: str) -> Iterator[None]:
        """Check what is sent meanwhile: something, and questions only."""
        before = len(self.proxy.requests)
        yield
        self.check(self.proxy.requests[before:], what)

    def check(self, sent: Sequence[Request], what: str) -> None:
        """Check that requests were sent, and only read."""
        assert METADATA in {request.api_key for request in sent}, what
        flaws = (why_not_harmless(request, self.server.version) for request in sent)
        assert [flaw for flaw in flaws if flaw is not None] == [], what

    def run_top(self, api_key: int) -> None:
        """Run `kgroup top`, and check what it has sent; brokers of 0.8 list no groups."""
        if version_tuple(self.server.version) >= (0, 9):
            with self.harmless("top"):
                self.run_for_a_while("top", "--interval", "0.1", api_key=api_key)

    def run_for_a_while(self, *words: str, api_key: int) -> None:
        """Run what never ends until it has sent some requests of one kind."""

        def sent() -> int:
            return sum(request.api_key == api_key for request in self.proxy.requests)

        before = sent()
        with subprocess.Popen(
            [sys.executable, "-m", "kgroup", *words, "-b", self.proxy.bootstrap],
            stdout=subprocess.DEVNULL,
            preexec_fn=default_signals,
        ) as process:
            try:
                until(lambda: process.poll() is not None or sent() >= before + 6)
                assert process.poll() is None, words
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_S)
            finally:
                process.kill()


@pytest.fixture(autouse=True)
def _patient_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_COMPLETION_TIMEOUT", "60")


@pytest.fixture(scope="module", params=VERSIONS)
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    version: str = request.param
    with (
        broker(version, tmp_path_factory.mktemp(f"kafka-{version}"), config=CONFIG) as server,
        RecordingProxy([server.port]) as proxy,
        pytest.MonkeyPatch.context() as patched,
    ):
        if version_tuple(version) < (0, 10):  # never answers the first request of each command
            patched.setattr(client, "SOON_S", 0.1)
        yield Watched(server, proxy)


def test_virgin_cluster(watched: Watched, cli: Cli) -> None:
    assert watched.topics() == set()
    watched.run_all(cli)
    watched.complete(cli, every=False)
    watched.run_top(METADATA)
    assert watched.topics() == set()
    sent = {request.api_key for request in watched.proxy.requests}
    assert FIND_COORDINATOR not in sent, "it creates __consumer_offsets"


def test_groups_with_topics_that_are_not_there(watched: Watched, cli: Cli) -> None:
    """A member owns partitions of "gone", which is deleted then, and of "never"."""
    version, bootstrap = watched.server.version, watched.server.bootstrap
    _create_topics(watched.server, "orders", "gone")
    with Wire(version, bootstrap) as wire:
        await_coordinator(wire)
        commit(wire, "simple", {("orders", 0): 1, ("gone", 0): 1})
        _produce(watched.server, "orders", 2)
        if version_tuple(version) >= (0, 9):
            names = ["orders", "gone", "never"]
            member = RawMember(version, bootstrap, "reader-client")
            join(member, "reader", {"range": consumer_protocol(names)}, consumer_protocol(names, 0))
        _delete_topic(watched.server, "gone")
        topics = {"orders", "__consumer_offsets"}
        if version_tuple(version) >= (0, 11):
            wire.call("FindCoordinator", 1, key="payments", key_type=1)
            topics.add("__transaction_state")
        watched.await_topics(topics)
        printed = watched.run_all(cli)
        suggested = watched.complete(cli, every=version == VERSIONS[0])
        with watched.harmless("--watch"):
            words = ("describe", "reader", "simple", "--watch", "0.1")
            watched.run_for_a_while(*words, api_key=OFFSET_FETCH)
        watched.run_top(OFFSET_FETCH)
        with watched.harmless("--follow"):
            watched.run_for_a_while("decode-offsets", "--follow", api_key=FETCH)
        assert watched.topics() == topics
        described = printed["describe reader simple nobody --sort -lag"]
        assert "orders" in described
        if version_tuple(version) >= (0, 9):
            assert "gone" in described
            assert "never" in described
            for typed, begin, lines in suggested:
                assert any(line.startswith(begin) for line in lines), typed
        # This is what would have happened.
        wire.call("Metadata", 0, topics=[{"name": "never"}])
        watched.await_topics(topics | {"never"})


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A broker with live members of every type of group."""
    with (
        live_groups("4.3.1", tmp_path_factory.mktemp("live"), config=CONFIG) as groups,
        RecordingProxy([groups.server.port]) as proxy,
    ):
        yield Watched(groups.server, proxy)


@pytest.mark.parametrize("group_id", ["pair", "racks", "shared", "totals"])
def test_live_members_of_every_type(live: Watched, cli: Cli, group_id: str) -> None:
    """Members stay what they are, and so do generation, epochs and offsets of their group."""

    def said() -> Sequence[object]:
        result = cli("describe", group_id, "-b", live.server.bootstrap, "-o", "json")
        assert result.status == 0, result.err
        (group,) = json.loads(result.out)["data"]
        assert len(group["members"]) == (2 if group_id in ("pair", "racks") else 1)
        return [group[name] for name in UNTOUCHED]

    before, topics = said(), live.topics()
    live.run_all(cli, group_id)
    assert (said(), live.topics()) == (before, topics)


def _produce(server: Broker, topic: str, count: int) -> None:
    producer = KafkaProducer(**server.client_options)
    for _ in range(count):
        producer.send(topic, b"x").get(30)
    producer.close()


def _create_topics(server: Broker, *names: str) -> None:
    if version_tuple(server.version) >= (0, 10, 1):
        with Wire(server.version, server.bootstrap) as wire:
            create_topics(wire, dict.fromkeys(names, 1))
        return
    topic = json.dumps({"version": 1, "partitions": {"0": [server.broker_id]}})
    _write_to_zookeeper(server, {f"/brokers/topics/{name}": topic for name in names})


def _delete_topic(server: Broker, name: str) -> None:
    if version_tuple(server.version) >= (0, 11):
        with Wire(server.version, server.bootstrap) as wire:
            wire.call("DeleteTopics", 1, topic_names=[name], timeout_ms=30_000)
        return
    _write_to_zookeeper(server, {f"/admin/delete_topics/{name}": ""})


def _write_to_zookeeper(server: Broker, nodes: Mapping[str, str]) -> None:
    """Ask the controller for something, as the tools of old versions do."""
    assert server.zookeeper is not None
    client = KazooClient(hosts=server.zookeeper.connect)
    client.start(timeout=30)
    try:
        for path, value in nodes.items():
            client.create(path, value.encode(), makepath=True)
    finally:
        client.stop()
        client.close()
