"""Files of client properties against a broker with listeners of every kind.

Each file goes to kgroup (its keyword arguments, to plain connections of kafka-python) and to
Kafka's own Java Admin client, which says whether the file is right.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin.groups import ListGroupsRequest

from kgroup.errors import BrokerError, KgroupError
from kgroup.source.broker.connection import ConnectionManager, connection_error
from kgroup.source.broker.source import LiveCluster
from kgroup.source.config.client_config import ClientConfig, client_config
from tests.broker.maven import compile_java, run_java
from tests.broker.process import HOST, free_port, running
from tests.broker.secure_broker import (
    ALICE,
    BAD,
    GOOD,
    PASSWORD,
    PLAIN,
    PROTOCOLS,
    SECRETS,
    VERSION,
    SecureBroker,
    create_acls,
    login,
    written,
)
from tests.cli.command_line import Cli, Result
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    consumer_protocol,
    create_topics,
    join,
)
from tests.record.wire import Wire
from tests.waiting import until

RIGHTS: Mapping[str, Sequence[tuple[ResourceType, str, ACLOperation]]] = {
    "reader": (
        (ResourceType.GROUP, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "__consumer_offsets", ACLOperation.READ),
    ),
    "no-log": (
        (ResourceType.GROUP, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "*", ACLOperation.DESCRIBE),
    ),
    "no-group": (
        (ResourceType.GROUP, "other", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "__consumer_offsets", ACLOperation.READ),
    ),
    "no-topic": (
        (ResourceType.GROUP, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "orders", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "__consumer_offsets", ACLOperation.READ),
    ),
    "group-only": ((ResourceType.GROUP, "*", ACLOperation.DESCRIBE),),
    "operator": (
        (ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE),
        (ResourceType.GROUP, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "orders", ACLOperation.DESCRIBE),
    ),
    "deleter": (
        (ResourceType.GROUP, "*", ACLOperation.DELETE),
        (ResourceType.TOPIC, "orders", ACLOperation.DESCRIBE),
    ),
}
"""What each guest may do."""
GROUPS = {"g", "other", "both", "hidden"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    server = SecureBroker(tmp_path_factory.mktemp("secure"))
    with running(server):
        admin = KafkaAdminClient(**server.client_options)
        for user in ("alice", "a=b,c"):
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                credential = UserScramCredentialUpsertion(user, mechanism, PASSWORD)
                assert admin.alter_user_scram_credentials([credential]) == {user: None}
        acls = [
            ACL(f"User:{user}", "*", what, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
            for user, rights in RIGHTS.items()
            for kind, name, what in rights
        ]
        create_acls(admin, acls)
        until(lambda: _scram_credentials(admin) == 4)
        admin.close()
        server.ports["CLOSED"] = free_port()
        member = RawMember(VERSION, server.bootstrap, "client")
        with Wire(VERSION, server.bootstrap) as wire:
            create_topics(wire, {"orders": 1, "payments": 1})
            await_coordinator(wire)
            topics = ["orders", "payments"]
            join(member, "g", {"range": consumer_protocol(topics)}, consumer_protocol(topics, 0))
            who = (member.member_id, member.generation)
            commit(wire, "g", {("orders", 0): 0, ("payments", 0): 0}, member=who)
            commit(wire, "other", {("orders", 0): 0})
            commit(wire, "both", {("orders", 0): 0, ("payments", 0): 0})
            commit(wire, "hidden", {("payments", 0): 0})
        yield server
        member.close()


def _scram_credentials(admin: KafkaAdminClient) -> int:
    """Count the credentials that the broker knows."""
    return sum(
        len(each["credential_infos"]) for each in admin.describe_user_scram_credentials().values()
    )


@pytest.fixture(scope="module")
def files(server: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write each case as a file."""
    folder = tmp_path_factory.mktemp("clients")
    files = {}
    bad = {name: (listener, settings) for name, (listener, settings, _) in BAD.items()}
    for name, (listener, settings) in {**GOOD, **bad}.items():
        host, _, port = listener.rpartition(":")
        whole = {
            "bootstrap.servers": f"{host or HOST}:{server.ports[port]}",
            "security.protocol": PROTOCOLS.get(port, "PLAINTEXT"),
            **settings,
        }
        files[name] = folder / f"{name}.properties"
        lines = (f"{key}={written(value)}\n" for key, value in whole.items())
        files[name].write_text("".join(lines), "ascii")
    return files


def test_java_agrees_with_the_files(files: dict[str, Path]) -> None:
    source = Path(__file__).parent / "java" / "ListGroupsWith.java"
    classes = compile_java([source], VERSION)

    def outcomes(names: Iterable[str], patience_ms: int) -> list[str]:
        args = [str(patience_ms), *(str(files[name]) for name in names)]
        done = run_java(VERSION, "ListGroupsWith", args, classes=classes)
        return done.stdout.decode().split()

    assert dict(zip(GOOD, outcomes(GOOD, 30_000), strict=True)) == dict.fromkeys(GOOD, "ok")
    bad = outcomes(BAD, 3000)  # some are never answered
    assert (len(bad), "ok" in bad) == (len(BAD), False)


@pytest.mark.parametrize("name", GOOD)
def test_connects(name: str, files: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        config = client_config(environment={}, command_config=files[name])
        assert config.notes == ()
        assert _list_groups(config).error_code == 0
    _assert_no_secret(caplog.text, repr(config))


@pytest.mark.parametrize("name", ["scram-512-tls", "key-jks"])
def test_suits_every_client(name: str, files: dict[str, Path]) -> None:
    config = client_config(environment={}, command_config=files[name])
    admin = KafkaAdminClient(**config.kafka_options())
    try:
        assert {group["group_id"] for group in admin.list_groups()} == GROUPS
    finally:
        admin.close()


@pytest.mark.parametrize("name", BAD)
def test_says_why_not(
    name: str,
    files: dict[str, Path],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.DEBUG):
        config = client_config(environment={}, command_config=files[name])
        with pytest.raises(KgroupError) as caught:
            _list_groups(config)
    line = str(caught.value)
    assert re.match(rf"{re.escape(config.bootstrap_servers[0])} ({BAD[name][2]})", line), line
    assert "\n" not in line
    assert isinstance(caught.value, BrokerError)
    _assert_no_secret(caplog.text, repr(config), line, str(caught.getrepr(showlocals=False)))
    _assert_no_secret(*capfd.readouterr())


def _list_groups(config: ClientConfig) -> Any:
    """Connect to the first bootstrap server and ask for its groups, once."""
    options = config.kafka_options()
    net = NetworkSelector()
    manager = ConnectionManager(net, **options)

    async def ask() -> Any:
        connection = manager.get_connection(
            "bootstrap-0", timeout_ms=8000, refresh_metadata_on_err=False
        )
        await manager.wait_for(connection.init_future, 8000)
        return await connection.send_request(ListGroupsRequest())

    try:
        return net.run(ask)
    except Exception as error:
        raise connection_error(error, config.bootstrap_servers[0], options) from error
    finally:
        manager.close()
        net.close()


def _assert_no_secret(*texts: str) -> None:
    for text in texts:
        for secret in SECRETS:
            for shown in (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1]):
                assert shown not in text, text[max(0, text.index(shown) - 300) :][:600]


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_commands_never_show_a_secret(
    name: str,
    files: dict[str, Path],
    cli: Cli,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGROUP_DEBUG", "1")
    with caplog.at_level(logging.DEBUG):
        # Some that are wrong are never answered.
        config = ("--command-config", files[name], "--timeout", "3" if name in BAD else "60")
        result = cli("describe", "--all", *config, "-o", "json")
    assert result.status == (1 if name in BAD else 0)
    assert len(result.err.splitlines()) == (name in BAD)
    _assert_no_secret(result.out, result.err, caplog.text)


def test_a_snapshot_holds_no_secret(files: dict[str, Path], cli: Cli, tmp_path: Path) -> None:
    saved = tmp_path / "snapshot.json"
    config = files["plain-tls"]
    assert cli("snapshot", "--all", "-f", saved, "--command-config", config).status == 0
    text = saved.read_text("utf-8")
    assert {group["group_id"] for group in json.loads(text)["groups"]} == GROUPS
    _assert_no_secret(text)


@pytest.mark.parametrize(
    "overrides",
    [
        ("sasl.mechanism=PLAIN", f"sasl.jaas.config={login(PLAIN, **ALICE)} and more"),
        ("sasl.mechanism=PLAIN", f"sasl.jaas.config={PASSWORD}"),
        ("sasl.mechanism=OAUTHBEARER", f"sasl.jaas.config={login(PLAIN, **ALICE)}"),
        ("ssl.truststore.location=/nowhere", f"ssl.truststore.password={PASSWORD}"),
        ("ssl.keystore.type=PEM", f"ssl.keystore.key={PASSWORD}"),
    ],
)
def test_wrong_settings_never_show_a_secret(
    server: SecureBroker, cli: Cli, caplog: pytest.LogCaptureFixture, overrides: tuple[str, ...]
) -> None:
    options = [word for override in overrides for word in ("-X", override)]
    with caplog.at_level(logging.DEBUG):
        result = cli("list", "-b", server.bootstrap, "-X", "security.protocol=SASL_SSL", *options)
    assert (result.status, result.out) == (2, "")
    _assert_no_secret(result.err, caplog.text)


Ask = Callable[..., Result]


@pytest.fixture
def ask(server: SecureBroker, cli: Cli) -> Ask:
    """Runs a command as a guest."""

    def run(user: str, *args: str) -> Result:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login(PLAIN, username=user, password=PASSWORD),
        }
        options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
        return cli(*args, "-b", f"{HOST}:{server.ports['SASL']}", *options)

    return run


def described(result: Result) -> dict[str, dict[str, Any]]:
    return {row["group_id"]: row for row in json.loads(result.out)["data"]}


def lags(group: dict[str, Any]) -> dict[str, tuple[int | None, int | None, str | None]]:
    return {
        row["topic"]: (row["committed_offset"], row["lag"], row["mark"]) for row in group["offsets"]
    }


def test_with_all_rights(ask: Ask) -> None:
    result = ask("reader", "describe", "g", "-o", "json")
    assert (result.status, result.err) == (0, "")
    group = described(result)["g"]
    assert group["generation_id"] == 1
    assert lags(group) == {"orders": (0, 0, None), "payments": (0, 0, None)}
    listed = ask("reader", "list", "-o", "tsv", "--no-headers", "--columns", "group_id")
    assert (listed.status, listed.out, listed.err) == (0, "both\ng\nhidden\nother\n", "")


def test_without_read_on_consumer_offsets(ask: Ask) -> None:
    result = ask("no-log", "describe", "g", "-o", "json")
    assert result.status == 0
    assert result.err == (
        "kgroup: note: __consumer_offsets-3: its leader returned TOPIC_AUTHORIZATION_FAILED (it "
        "needs READ on the topic); generations, leaders, timeouts and times of commits may be "
        "missing.\n"
    )
    group = described(result)["g"]
    assert (group["generation_id"], group["leader_id"]) == (None, None)
    assert lags(group) == {"orders": (0, 0, None), "payments": (0, 0, None)}


@pytest.mark.parametrize("user", ["no-log", "group-only", "operator"])
def test_a_check_without_the_log_checks_the_state(ask: Ask, user: str) -> None:
    """What the past was is a note, and the status that of the state."""
    result, state = ask(user, "check", "g"), ask(user, "check", "g", "--no-past")
    assert (result.status, result.out) == (state.status, state.out)
    *_, note = (line for line in result.err.splitlines() if line not in state.err)
    assert re.match(r"kgroup: note: The log of g was not (fully )?checked: ", note)
    assert "TOPIC_AUTHORIZATION_FAILED" in note
    assert "__consumer_offsets" in note


def test_without_describe_on_a_group(ask: Ask) -> None:
    line = (
        "kgroup: group 'g': denied: The cluster returned GROUP_AUTHORIZATION_FAILED "
        "(it needs DESCRIBE on the group).\n"
    )
    nothing = ask("no-group", "describe", "g")
    assert (nothing.status, nothing.out, nothing.err) == (1, "", line)
    result = ask("no-group", "describe", "g", "other", "-o", "json")
    assert (result.status, result.err) == (4, line)
    assert list(described(result)) == ["other"]
    for args in (["describe", "--all"], ["list"], ["offsets", "show", "--all"]):
        result = ask("no-group", *args, "-o", "json")
        unchecked = (
            "kgroup: note: Whether broker 1 had loaded all groups could not be checked: "
            "GROUP_AUTHORIZATION_FAILED (it needs DESCRIBE on the group).\n"
        )
        assert result.status == 0
        assert {*result.err.splitlines(keepends=True)} == {unchecked, HIDDEN_GROUPS}
        assert list(described(result)) == ["other"]
    result = ask("no-group", "coordinator", "g", "other", "-o", "json")
    assert result.status == 4
    assert result.err.count("\n") == 1
    assert "(it needs DESCRIBE on the group)" in result.err
    rows = described(result)
    assert (rows["g"]["coordinator"], rows["other"]["agrees"]) == (None, True)


def test_without_describe_on_a_topic(ask: Ask) -> None:
    line = (
        "kgroup: not-authorized: payments: The user may not describe the topic "
        "(DESCRIBE on the topic).\n"
    )
    commits = f"kgroup: group 'g': {UNSEEN}"
    note = (
        "kgroup: note: both, hidden, other: Brokers omit commits for topics that "
        "you may not describe; whether there are any is unknown.\n"
    )
    unread = commits.replace("what the group", "whether the group").replace("shown.", "known.")
    for args, told in ((["g"], commits), (["--all"], note + unread)):
        result = ask("no-topic", "describe", *args, "-o", "json")
        assert (result.status, result.err) == (4, told + line)
        group = described(result)["g"]
        assert lags(group) == {"orders": (0, 0, None), "payments": (None, None, "not-authorized")}
    assert ask("no-topic", "list").status == 4  # not all of its lags are known
    assert ask("no-topic", "list", "--no-lag").status == 0


HIDDEN_GROUPS = (
    "kgroup: note: Brokers omit groups that you may not describe (this needs DESCRIBE on the "
    "group); whether there are any is unknown.\n"
)
UNSEEN = (
    "not-authorized: payments: The topic may not be described (it needs DESCRIBE on the topic); "
    "what the group has committed for it is not shown.\n"
)
NOTHING = (
    "not-authorized: Nothing is committed for topics that you may describe; commits for other "
    "topics are not shown (this needs DESCRIBE on the topics).\n"
)


@pytest.mark.parametrize(
    ("group", "args", "status"),
    [
        ("both", "offsets show both", 4),
        ("hidden", "offsets show hidden", 1),
        ("both", "offsets reset both --to-offset 0", 4),
        ("hidden", "offsets reset hidden --to-offset 0", 1),
        ("both", "offsets delete both", 4),
        ("hidden", "offsets delete hidden", 4),
        ("both", "offsets delete both --topic orders", 4),
        ("both", "offsets delete both --topic payments", 1),
        ("both", "offsets export both -f -", 4),
        ("hidden", "describe hidden", 4),
        ("hidden", "check hidden", 4),
        ("hidden", "snapshot hidden -f -", 4),
    ],
)
def test_commits_for_hidden_topics_are_told(ask: Ask, group: str, args: str, status: int) -> None:
    """The log names them; brokers leave them out of OffsetFetch for all topics."""
    result = ask("no-topic", *args.split())
    assert f"kgroup: group {group!r}: {UNSEEN}" in result.err
    assert "not-found" not in result.err
    assert result.status == status
    unread = ask("group-only", *args.split())
    assert f"kgroup: group {group!r}: {NOTHING}" in unread.err
    assert "not-found" not in unread.err
    assert unread.status == (4 if status == 4 and "offsets" not in args else unread.status)
    assert unread.status in (1, 4)


def test_where_nothing_proves_that_all_is_shown_a_note_says_so(ask: Ask) -> None:
    for args in (["offsets", "show", "both"], ["offsets", "show", "--all"], ["describe", "both"]):
        result = ask("operator", *args)
        assert "Brokers omit commits for topics that you may not describe " in result.err
        assert "(__consumer_offsets, payments)" in result.err
        assert HIDDEN_GROUPS not in result.err
    assert ask("reader", "offsets", "show", "--all").err == ""
    for user in ("reader", "no-log"):
        result = ask(user, "offsets", "show", "both")
        assert (result.status, result.err) == (0, "")
    absent = ask("no-topic", "offsets", "show", "nobody")
    assert (absent.status, "not-found" in absent.err) == (3, True)


def test_what_cannot_be_saved_is_not_deleted_unless_told_to(
    server: SecureBroker, ask: Ask, tmp_path: Path
) -> None:
    there = {("orders", 0): 3, ("payments", 0): 4}
    with Wire(VERSION, server.bootstrap) as wire:
        commit(wire, "doomed", there)
    line = ["offsets", "delete", "doomed", "--execute", "--backup", str(tmp_path / "b.json")]
    refused = ask("deleter", *line)
    assert refused.status == 4
    assert "group 'doomed': not-authorized: The group may have committed offsets" in refused.err
    assert "choose --delete-hidden" in refused.err
    with LiveCluster(server.bootstrap) as cluster:
        (left,) = cluster.read_offsets(["doomed"]).offsets.values()
        assert {
            (offset.topic, offset.partition): offset.committed_offset for offset in left
        } == there
        assert not (tmp_path / "b.json").exists()
        done = ask("deleter", *line, "--delete-hidden")
        assert "1 done" in done.err
        assert cluster.read_offsets(["doomed"]).offsets == {}


def test_without_describe_on_consumer_offsets(server: SecureBroker, ask: Ask) -> None:
    """Nothing is known of partitions; groups are."""
    line = (
        "kgroup: note: __consumer_offsets: the cluster returned TOPIC_AUTHORIZATION_FAILED (it "
        "needs DESCRIBE on the topic); groups' partitions of it, generations, leaders, timeouts "
        "and times of commits are unknown.\n"
    )
    unchecked = (
        "kgroup: note: __consumer_offsets: the cluster returned TOPIC_AUTHORIZATION_FAILED; "
        "whether every coordinator has loaded its groups could not be checked: groups may be "
        "missing.\n"
    )
    result = ask("group-only", "list", "--no-lag", "-o", "json")
    assert (result.status, result.err) == (0, unchecked + line)
    assert {row["offsets_partition"] for row in described(result).values()} == {None}
    result = ask("group-only", "describe", "g", "-o", "json")
    assert result.status == 4
    assert result.err.startswith(line)
    assert result.err.count("\n") == 5  # and for each topic, that of its commits and of its log
    group = described(result)["g"]
    assert (group["state"], len(group["members"])) == ("Stable", 1)
    result = ask("group-only", "coordinator", "g", "-o", "json")
    assert result.status == 0
    assert result.err == (
        "kgroup: note: Computed for 50 partitions of __consumer_offsets, Kafka's default, because "
        "the actual number is unknown: the cluster does not report the topic (some have none, and "
        "a user needs DESCRIBE on it). The coordinators are those that the cluster reports.\n"
    )
    (row,) = described(result).values()
    assert row["coordinator"]["port"] == server.ports["SASL"]
    assert (row["leader"], row["agrees"]) == (None, None)
