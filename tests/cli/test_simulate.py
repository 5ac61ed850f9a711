"""`kgroup simulate` as it is typed."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Cli

DATA = Path(__file__).parents[1] / "data"
JSON = ("-o", "json")
SAMPLE = ("--from", "order-service", "--sample")
SCENARIO = """
group = "billing"
[topics]
orders = 4
[[member]]
name = "a"
count = 2
start = 0
topics = "orders"
"""


def test_list(cli: Cli) -> None:
    names = [line.split()[0] for line in cli("simulate", "--list").out.splitlines()]
    assert names[0] == "name"
    assert {"two-members", "member-crashes", "long-pause"} <= set(names)
    (row, *_) = json.loads(cli("simulate", "--list", "-o", "json").out)["data"]
    assert list(row) == ["name", "title", "about"]


def test_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO)
    found = cli("simulate", file, "-o", "json")
    assert found.status == 0
    (run,) = json.loads(found.out)["data"]
    assert [each["cause"] for each in run["rebalances"]] == ["member joined"]
    assert [(each["partition"], each["end_ms"]) for each in run["ownerships"]] == [
        (number, None) for number in range(4)
    ]
    assigned = [each for each in run["events"] if each["event"] == "assigned"]
    assert sorted(each["partitions"] for each in assigned) == [
        [["orders", 0], ["orders", 1]],
        [["orders", 2], ["orders", 3]],
    ]


def test_standard_input_and_csv(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SCENARIO.encode())))
    found = cli("simulate", "-", "-o", "csv", "--seed", "3")
    head, *rows = csv.reader(io.StringIO(found.out))
    assert head[:4] == ["seed", "time_ms", "actor", "event"]
    assert rows[0] == ["3", "0", "a1", "start", "", "", "", "", ""]
    assert {row[0] for row in rows} == {"3"}


def test_runs_are_spread(cli: Cli) -> None:
    found = cli("simulate", "two-members", "--runs", "20")
    (line,) = [
        splitline for splitline in found.out.splitlines() if splitline.startswith("rebalance 2")
    ]
    assert "member joined" in line
    rows = json.loads(cli("simulate", "two-members", "--runs", "3", "-o", "json").out)["data"]
    assert [row["seed"] for row in rows] == [0, 1, 2]


def test_until_stable_ends_early(cli: Cli) -> None:
    (whole,) = json.loads(cli("simulate", "member-crashes", "-o", "json").out)["data"]
    asked = cli("simulate", "member-crashes", "--until", "stable", "-o", "json")
    (short,) = json.loads(asked.out)["data"]
    assert short["events"] == whole["events"]
    assert short["end_ms"] < whole["end_ms"]


@pytest.mark.parametrize(
    ("topics", "limit", "says"),
    [
        (100, 1_048_588, "more than max.message.bytes of __consumer_offsets (1,048,588): Sync"),
        (100, 2_000_000, "% of max.message.bytes of __consumer_offsets (2,000,000): above that, S"),
        (100, 2_800_000, None),
        (20, 1_048_588, None),
    ],
)
def test_a_group_whose_record_is_too_large(
    cli: Cli, tmp_path: Path, topics: int, limit: int, says: str | None
) -> None:
    """A broker of 4.3.1 refuses the record of 250 members with 100 such topics."""
    names = [f"a-rather-long-name-of-a-topic-that-is-there-{n:06}" for n in range(topics)]
    text = "[topics]\n" + "".join(f"{name} = 1\n" for name in names)
    text += f'[brokers]\n"message.max.bytes" = {limit}\n'
    text = text.replace('"message.max.bytes" = 1048588', "")  # the default
    text += f"[members]\ntopics = {json.dumps(names)}\n"
    text += 'partition.assignment.strategy = "range"\n'
    text += '[[member]]\nname = "m"\ncount = 250\nstart = "0s"\n'
    file = tmp_path / "large.toml"
    file.write_text(text)
    result = cli("simulate", str(file), "--until", "stable", "-o", "jsonl")
    run = json.loads(result.out)
    metadata = 250 * sum(2 + len(name) for name in names)
    assert metadata < run["record_bytes"] < metadata + 250 * 250
    if says is None:
        assert result.err == ""
    else:
        assert says in result.err
        assert f"about {run['record_bytes']:,} bytes" in result.err
    is_too_large = says is not None and says.startswith("more")
    causes = [event["answer"] for event in run["events"] if event["event"] == "rebalance"]
    assert ("record too large" in causes) is is_too_large
    failed = {event["answer"] for event in run["events"] if event["event"] == "failed"}
    assert failed == ({"UNKNOWN_SERVER_ERROR"} if is_too_large else set())


def test_grid_has_a_line_for_each_partition(cli: Cli) -> None:
    lines = cli("simulate", "member-crashes", "--grid").out.splitlines()
    drawn = {line.split()[0]: line.split()[1] for line in lines if line.startswith("orders-")}
    assert list(drawn) == [f"orders-{number}" for number in range(6)]
    assert set(drawn["orders-0"]) == {".", "A"}
    assert drawn["orders-2"].strip(".").count(".") > 20  # nobody, until the session has expired
    legend = "A m1, B m2, C m3, . nobody, - owned, but not read, * more than one"
    assert lines[-1] == legend


def test_grid_tells_who_reads_from_who_stands_still(cli: Cli) -> None:
    lines = cli("simulate", "long-pause", "--grid").out.splitlines()
    (paused, steady) = lines[0].split()[1], lines[5].split()[1]
    assert re.fullmatch(r"\.+A{8,}-{14,}B+\.A+\.?A+", paused)
    assert "-" not in steady


def test_grid_tells_how_many_have_no_sign(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO.replace("= 4", "= 70").replace("count = 2", "count = 70"))
    legend = cli("simulate", file, "--grid").out.splitlines()[-1]
    assert "9 a65, ? one of 8 more, . nobody" in legend


def test_heads_are_names_of_columns(cli: Cli) -> None:
    head = next(
        line for line in cli("simulate", "two-members").out.splitlines() if " actor " in line
    )
    asked = cli("simulate", "two-members", "--columns", ",".join(head.split()))
    assert asked.status == 0
    assert asked.out.splitlines()[0].split() == head.split()


def test_diagram_is_mermaid(cli: Cli) -> None:
    text = cli("simulate", "two-members", "--diagram").out
    assert text.count("```mermaid\n") == text.count("```\n") == 2
    assert "participant p0 as first" in text
    assert "c-->>p0: 0:21." in text
    assert "PreparingRebalance --> CompletingRebalance : 2 times" in text


@pytest.mark.parametrize(
    ("group", "generation_id"), [("order-service", 5), ("fraud-check", 2), ("pricing", 3)]
)
def test_a_group_as_it_is(cli: Cli, group: str, generation_id: int) -> None:
    """A recorded group; its owners afterwards are those that the dry run of the assignor names."""
    crash = f"{group}-1"
    asked = cli("simulate", "--from", group, "--sample", "--crash", crash, *JSON)
    (run,) = json.loads(asked.out)["data"]
    assert [each["cause"] for each in run["rebalances"]] == ["session expired"]
    assert run["rebalances"][0]["generation_id"] == generation_id + 1
    assert run["rebalances"][0]["begin_ms"] in range(40_000, 46_000)  # its session is 45 s
    owners = {
        (each["topic"], each["partition"]): each["owner"]
        for each in run["ownerships"]
        if each["end_ms"] is None
    }
    dry = ("assign", group, "--sample", "--dry-run", "--settle", *JSON)
    plan = json.loads(cli(*dry, "--remove-member", crash).out)["data"][-1]
    clients = {each["member_id"]: each["client_id"] for each in plan["members"]}
    expected = {
        tuple(partition): clients[member_id]
        for member_id, partitions in plan["assignment"].items()
        for partition in partitions
    }
    assert owners == expected


def test_a_group_and_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'duration = "3m"\n[[member]]\nname = "new"\nstart = "5s"\ntopics = "orders"\n'
        "partition.assignment.strategy = 'cooperative-sticky'\n"
        '[[step]]\nat = "1m"\ndo = "stop"\nmember = "order-service-2"\n'
    )
    found = cli("simulate", file, *SAMPLE, *JSON)
    (run,) = json.loads(found.out)["data"]
    assert {"member joined", "member left"} <= {each["cause"] for each in run["rebalances"]}
    assert "new" in {each["owner"] for each in run["ownerships"] if each["end_ms"] is None}
    assert run["end_ms"] == 180_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('group = "other"\n', "line 1: group: expected none, as the group exists already"),
        ('protocol = "kafka"\n', "line 1: protocol: expected none, as the group exists already"),
        ("[members]\nprocessing = '5s'\n", "line 1: members: expected [[member]] tables, as"),
        ('version = "2.3"\n', "line 1: version: expected 2.4 or later, for the group's members, "),
    ],
)
def test_what_a_file_cannot_say_of_a_group(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)
    found = cli("simulate", file, *SAMPLE)
    assert (found.status, found.out) == (1, "")
    assert said in found.err


def test_a_shipped_scenario_happens_to_a_group(cli: Cli) -> None:
    """Its title is told, its prose not, which is about another group."""
    lines = cli("simulate", "two-members", *SAMPLE).out.splitlines()
    assert lines[0] == "Group order-service: Two consumers join one after another"
    assert lines[1].split()[0] == "time"


def test_a_group_whose_members_all_crash_does_not_seem_to_recover(cli: Cli) -> None:
    members = [f"--crash=order-service-{number}" for number in (1, 2, 3)]
    line = ("simulate", *SAMPLE, "--until", "stable")
    note = "after 45 s, the group had no members, so that nothing is read"
    assert note in cli(*line, *members).err
    assert "no members" not in cli(*line, *members[1:]).err


def test_members_of_a_shipped_scenario_join_the_group(cli: Cli) -> None:
    found = cli("simulate", "rolling-restart", *SAMPLE, "--until", "stable")
    assert (
        "note: the scenario's own members join the group: m1, m2, m3. For a rolling restart of the "
        "group's members, run: kgroup plan order-service --sample\n"
    ) in found.err
    assert "own members join" not in cli("simulate", *SAMPLE).err


@pytest.mark.parametrize(
    "text", ["order-service-1", "order-service-1-", "order-service-1-a0af3bb0-bc3c"]
)
def test_a_member_is_named_by_how_its_id_begins(cli: Cli, text: str) -> None:
    (described,) = json.loads(cli("describe", "order-service", "--sample", *JSON).out)["data"]
    (member_id,) = {
        each["member_id"] for each in described["members"] if each["client_id"] == "order-service-1"
    }
    text = member_id[: len(text)]
    (run,) = json.loads(cli("simulate", *SAMPLE, "--crash", text, *JSON).out)["data"]
    assert [e["actor"] for e in run["events"] if e["event"] == "crash"] == ["order-service-1"]


def test_what_is_assumed_of_a_group_is_said(cli: Cli, tmp_path: Path) -> None:
    found = cli("simulate", *SAMPLE)
    assert (
        "note: everything is simulated as in Kafka 4.3.1; version in a scenario file changes that"
        in found.err
    )
    assert "auto.offset.reset latest, a commit every 5000 ms, a heartbeat every 3000" in found.err
    file = tmp_path / "s.toml"
    file.write_text('version = "2.8.2"\nrate = 3\n')
    found = cli("simulate", file, *SAMPLE)
    assert "simulated as in Kafka 2.8.2" in found.err
    assert "3 records per second" in found.err


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (("nobody",), 3, "does not exist"),
        (("invoice-batch",), 1, "expected members, found none (state Empty)"),
        (
            ("notifications",),
            1,
            "zookeeper, found share. To see what moves without a member, run: kgroup assign notif",
        ),
        (
            ("order-totals",),
            1,
            "zookeeper, found streams. To see what moves without a member, run: kgroup assign ord",
        ),
        (
            ("warehouse-sync", "--crash", "any"),
            1,
            "groups of Connect workers are not simulated. To see what moves if one joins or "
            "leaves, run: kgroup assign warehouse-sync --add-member --sample",
        ),
        (
            ("order-service", "--crash", "order"),
            3,
            "has no member 'order': the start of a member id must be longer than the client id. "
            "3 begin with it: order-service-1 at ",
        ),
        (("order-service", "--crash", "127.0.0.1"), 2, "'127.0.0.1' means 3 members; name one by "),
        (("order-service", "--crash", "nobody"), 3, "has no member 'nobody'; it has: order-serv"),
    ],
)
def test_groups_that_are_none(cli: Cli, args: tuple[str, ...], status: int, said: str) -> None:
    found = cli("simulate", "--sample", "--from", *args)
    assert (found.status, found.out) == (status, "")
    assert said in found.err


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ((), 2, "name one scenario, --from a group, or give --list; found neither"),
        (("two-members", "--sample"), 2, "a source requires --from GROUP"),
        (("two-members", "--crash", "first"), 2, "--crash and --stop require --from GROUP"),
        (("--from", "a"), 2, "--bootstrap-server"),
        (("two-members", "--list"), 2, "name one scenario, or give --list; found both"),
        (("--from", "a", "--list"), 2, "name a group (--from), or give --list; found both"),
        (("--list", "--grid"), 2, "--list simulates nothing"),
        (("--list", "--runs", "3"), 2, "--list simulates nothing"),
        (("two-members", "--timeout", "3"), 2, "a source requires --from GROUP"),
        (("",), 2, "SCENARIO is empty; name a file or a scenario of --list"),
        (("two-members", "--grid", "--diagram"), 2, "leave out one of them"),
        (("two-members", "--grid", "-o", "json"), 2, "--grid writes a drawing"),
        (("two-members", "--diagram", "--runs", "2"), 2, "--diagram draws one run"),
        (("two-member",), 1, "did you mean 'two-members'?"),
        (("/nowhere/x.toml",), 1, "expected a file or a scenario of --list, found neither"),
        (("/",), 1, "/: expected a file or a scenario of --list, found a folder"),
        (("two-members", "--columns", "nothing"), 2, "no column nothing; there are: seed,"),
    ],
)
def test_wrong_usage(cli: Cli, args: tuple[str, ...], status: int, said: str) -> None:
    found = cli("simulate", *args)
    assert (found.status, found.out) == (status, "")
    assert said in found.err


def test_what_is_wrong_in_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO + "colour = 'red'\n")
    found = cli("simulate", file, "-o", "json")
    assert found.status == 1
    (error,) = json.loads(found.out)["errors"]
    assert error["path"] == str(file)
    assert "line 10: member 1 colour: expected" in error["reason"]
    file.write_bytes(b"\xff")
    assert "expected UTF-8, found the byte 0xff at position 0" in cli("simulate", file).err


def test_a_consumer_group_has_its_state_from_the_begin(cli: Cli) -> None:
    (run,) = json.loads(cli("simulate", "--from", "shipping", "--sample", *JSON).out)["data"]
    assert run["state_ms"] == {"Stable": run["end_ms"]}


@pytest.mark.parametrize(
    ("group", "status", "end"),
    [
        ("raw-empty", 1, "kgroup does not guess what they subscribe to\n"),
        (
            "raw-trailing",
            1,
            "expected a strategy of kafka-clients 4.3.1 (range, roundrobin, sticky, ",
        ),
    ],
)
def test_what_cannot_be_known_comes_without_advice(
    cli: Cli, group: str, status: int, end: str
) -> None:
    """Other commands have options that say what a group subscribes to."""
    found = cli("simulate", "--from", group, "--log-dir", DATA / "kafka-4.3.1")
    assert found.status == status
    assert end in found.err
    assert "--strategy" not in found.err
    assert "--spec" not in found.err


def as_it_is(cli: Cli, group: str, *args: str) -> Any:
    found = cli("simulate", "--from", group, "--log-dir", DATA / "kafka-4.3.1", *args, *JSON)
    (run,) = json.loads(found.out)["data"]
    return run


def owners_at(run: Any, time_ms: int) -> dict[int, str]:
    return {
        each["partition"]: each["owner"]
        for each in run["ownerships"]
        if each["begin_ms"] <= time_ms and (each["end_ms"] is None or each["end_ms"] > time_ms)
    }


def test_a_group_goes_on_where_it_was_on_its_way(cli: Cli) -> None:
    """One member has everything yet, and the other one waits for half of it."""
    run = as_it_is(cli, "restocking-unfinished")
    first, second = "restocking-1", "restocking-2"
    assert run["state_ms"]["Reconciling"] > 0
    assert [each["owner"] for each in run["ownerships"] if each["begin_ms"] == 0] == [first] * 6
    last = owners_at(run, run["end_ms"] - 1)
    assert [last[number] for number in range(6)] == [first] * 3 + [second] * 3


def test_members_that_are_away_do_not_run(cli: Cli) -> None:
    run = as_it_is(cli, "warehouse-static")
    assert owners_at(run, 10_000) == {0: "warehouse-pod-1", 1: "warehouse-pod-1"}
    (removed,) = [each for each in run["events"] if each["event"] == "member removed"]
    assert (removed["time_ms"], removed["answer"]) == (45_000, "warehouse-pod-2: session expired")
    assert set(owners_at(run, run["end_ms"] - 1).values()) == {"warehouse-pod-1"}
    assert [each["cause"] for each in as_it_is(cli, "carriers-away")["rebalances"]] == [
        "session expired"
    ]


def test_members_of_both_protocols_speak_theirs(cli: Cli) -> None:
    run = as_it_is(cli, "pricing-upgrading", "--stop", "pricing-old-1")
    said = {(each["actor"], each["event"]) for each in run["events"] if each["time_ms"] > 1_000}
    assert ("pricing-old-1", "LeaveGroup") in said
    assert ("pricing-old-2", "JoinGroup") in said
    assert ("pricing-new-1", "ConsumerGroupHeartbeat") in said
    assert owners_at(run, run["end_ms"] - 1).keys() == set(range(6))


ON_ZOOKEEPER = ("click-stats", "fraud-scan", "loyalty-points", "mail-archive", "price-feed")


@pytest.mark.parametrize("group", [*ON_ZOOKEEPER, "returns-desk", "stock-sync"])
def test_consumers_on_zookeeper_are_where_they_are(cli: Cli, group: str) -> None:
    """They own what their owner nodes say, and nothing happens; one that goes is missed."""
    (described,) = json.loads(cli("describe", group, "--sample", *JSON).out)["data"]
    owners = {
        (at["topic"], at["partition"]): member["member_id"]
        for member in described["members"]
        for at in member["assignment"]
    }
    (run,) = json.loads(cli("simulate", "--from", group, "--sample", *JSON).out)["data"]
    assert {
        (each["topic"], each["partition"]): f"{group}_{each['owner']}"
        for each in run["ownerships"]
        if (each["begin_ms"], each["end_ms"]) == (0, None)
    } == owners
    assert not run["rebalances"]
    assert run["is_at_rest"] or group == "returns-desk"  # which has a partition without leader
    assert not any(each["skipped"] or each["read_again"] for each in run["partitions"]) or any(
        each["event"] == "offset reset" for each in run["events"]
    )
    first = min(owners.values())
    asked = cli("simulate", "--from", group, "--sample", "--crash", first, *JSON)
    (run,) = json.loads(asked.out)["data"]
    (expired,) = [each for each in run["events"] if each["event"] == "session expired"]
    assert 1_000 + 4_000 <= expired["time_ms"] <= 1_000 + 8_000
    left = {each["owner"] for each in run["ownerships"] if each["end_ms"] is None}
    assert left == {owner.removeprefix(f"{group}_") for owner in owners.values()} - {
        first.removeprefix(f"{group}_")
    }


def test_a_file_adds_to_consumers_on_zookeeper(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[[member]]\nname = "new"\nstart = "5s"\ntopics = "orders"\n')
    found = cli("simulate", file, "--from", "stock-sync", "--sample", *JSON)
    (run,) = json.loads(found.out)["data"]
    assert [each["cause"] for each in run["rebalances"]] == ["consumer started"]
    assert len({each["owner"] for each in run["ownerships"] if each["end_ms"] is None}) == 3


def test_runs_tell_the_longest_time_unread(cli: Cli) -> None:
    lines = cli("simulate", "long-pause", "--runs", "3").out.splitlines()
    rows = {line[:30].strip(): line[30:].split() for line in lines if line.startswith("longest")}
    assert list(rows) == ["longest time without an owner", "longest time unread"]
    assert rows["longest time without an owner"][1] == "ms"
    assert (float(rows["longest time unread"][0]) > 30, rows["longest time unread"][1]) == (
        True,
        "s",
    )
