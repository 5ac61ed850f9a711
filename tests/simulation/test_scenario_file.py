"""Scenario files: what they may say, and what is said of those that are wrong."""

from __future__ import annotations

import pytest

from kgroup.errors import InputError
from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.rules import ConsumerSettings, MigrationPolicy
from kgroup.simulation.scenario.file import FIELDS, read_scenario
from kgroup.simulation.scenario.scenario import (
    Action,
    KeptIn,
    MemberPlan,
    Scenario,
    ZookeeperMemberPlan,
)
from kgroup.simulation.zookeeper.config import Registration

MEMBER = '[topics]\norders = 6\n[[member]]\nname = "a"\ntopics = "orders"\n'
"""Five lines; what a test adds begins in the sixth."""


def read(text: str) -> Scenario:
    return read_scenario(text, "s.toml")


def refused(text: str) -> str:
    with pytest.raises(InputError) as exception_info:
        read(text)
    return str(exception_info.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.toml: line 1: expected at least one [[member]], found none"),
        ("x =", "s.toml: expected TOML, found: "),
        ("groop = 'g'\n" + MEMBER, "line 1: groop: expected group, found 'groop'"),
        (MEMBER + "nam = 1", "line 6: member 1 nam: expected name, found 'nam'"),
        (MEMBER + 'start = "soon"', "line 6: member 1 start: expected milliseconds below 2^53"),
        (MEMBER + "start = -1", "line 6: member 1 start: expected milliseconds below 2^53"),
        (MEMBER + "start = true", "line 6: member 1 start: expected milliseconds"),
        (MEMBER + '[brokers]\n"group.max.size" = 2147483648', "a number from 0 to 2,147,483,647, "),
        (MEMBER + "count = 0", "line 6: member 1 count: expected a number from 1 to"),
        (MEMBER + 'count = "two"', "line 6: member 1 count: expected a number from 1 to"),
        (MEMBER + 'pattern = "o.*"', "line 6: member 1 pattern: expected one of topics, pattern a"),
        (MEMBER + "session.timeout.ms = 'x'", "line 6: member 1 session.timeout.ms: expected mill"),
        (MEMBER + '"session.timeout.ms" = 100', "line 6: member 1 session.timeout.ms: expected a"),
        (
            MEMBER + 'partition.assignment.strategy = "best"',
            "line 6: member 1 partition.assignment",
        ),
        (MEMBER + 'group.protocol = ["consumer"]', "member 1 group.protocol: expected classic or"),
        (MEMBER + 'auto.offset.reset = "none"', "line 6: member 1 auto.offset.reset: expected lat"),
        (MEMBER + "enable.auto.commit = 1", "line 6: member 1 enable.auto.commit: expected true o"),
        (MEMBER.replace("orders = 6", "orders = 0"), "line 2: topics orders: expected a number fr"),
        (MEMBER.replace('"orders"', '"others"'), "line 5: member 1 topics: expected topics of [to"),
        (MEMBER + MEMBER[MEMBER.index("[[") :], "line 7: member 2 name: expected a name that no o"),
        (MEMBER + "[[stage]]\n", "line 6: stage: expected [[member]] or [[step]], found"),
        (MEMBER + '[[step]]\ndo = "stop"\nmember = "a"', "line 6: step 1: expected at (milliseco"),
        (MEMBER + '[[step]]\nat = 1\ndo = "jump"', "line 8: step 1 do: expected start or stop or"),
        (MEMBER + '[[step]]\nat = 1\ndo = "stop"\nmember = "b"', "line 9: step 1 member: expected"),
        (
            MEMBER + '[[step]]\nat = 1\ndo = "stop"\ntopic = "b"',
            "line 9: step 1 topic: expected of",
        ),
        (MEMBER + '[[step]]\nat = 1\ndo = "stop_broker"\nbroker = 4', "line 9: step 1 broker: exp"),
        (
            MEMBER + '[[step]]\nat = 1\ndo = "add_partitions"\ntopic = "orders"\npartitions = 6',
            "line 10: step 1 partitions: expected a number from 7 to",
        ),
        (
            MEMBER + '[[step]]\nat = 1\ndo = "poison"\ntopic = "orders"\npartition = 6\nfor = 1',
            "line 10: step 1 partition: expected a partition from 0 to 5, found 6",
        ),
        (
            MEMBER + '[[step]]\nat = 1\ndo = "restart"\nmember = "a"\nset = {colour = 1}',
            "line 10: step 1 set colour: expected ",
        ),
        (
            'version = "4.2"\n' + MEMBER + 'group.protocol = "consumer"',
            "line 7: member 1 group.protocol: expected version 4.3 or later",
        ),
        (
            MEMBER + "session.timeout.ms = 9\ngroup.protocol = 'consumer'",
            "line 6: member 1 session.",
        ),
        (MEMBER + "group.remote.assignor = 'range'", "line 6: member 1 group.remote.assignor: exp"),
        (MEMBER + "regex = 'o.*'", "line 6: member 1 regex: expected none, as group.protocol is c"),
        (
            MEMBER + "[brokers]\ngroup.consumer.migration.policy = 'up'",
            "line 7: brokers group.consumer.migration.policy: expected disabled or upgrade or",
        ),
        (
            MEMBER + "[brokers]\ngroup.consumer.assignors = ['best']",
            "line 7: brokers group.consumer.assignors: expected uniform or range, found 'best'",
        ),
        (
            'version = "3.9"\n' + MEMBER + "[brokers]\ngroup.consumer.max.size = 2",
            "line 8: brokers group.consumer.max.size: expected version 4.3 or later",
        ),
        (
            MEMBER.replace('topics = "orders"', 'regex = "o.*"\ngroup.protocol = "consumer"')
            + '[[step]]\nat = 1\ndo = "restart"\nmember = "a"\nset = {group.protocol = "classic"}',
            "line 11: step 1 set: expected topics, as only the consumer protocol has a regex",
        ),
        ('version = "5.0"\n' + MEMBER, "line 1: version: expected a version from 1.1 to 4.3.1"),
        ('version = "1"\n' + MEMBER, "line 1: version: expected a version such as 2.8.2"),
        ('version = "2.²"\n' + MEMBER, "line 1: version: expected a version such as 2.8.2"),
        (
            'version = "2.2"\n' + MEMBER + 'group.instance.id = "i"',
            "line 7: member 1 group.instance.id: expected version 2.3 or later",
        ),
        (
            'version = "1.1.1"\n' + MEMBER + 'partition.assignment.strategy = "cooperative-sticky"',
            "line 7: member 1 partition.assignment.strategy: expected version 2.4",
        ),
        (MEMBER + "[brokers]\ndelay = 0", "line 7: brokers delay: expected at least 1 ms, found 0"),
        (MEMBER + "[brokers]\ndelay = [0, 5]", "line 7: brokers delay: expected at least 1 ms, fo"),
        (MEMBER + "[brokers]\ndelay = [5, 1]", "line 7: brokers delay: expected one time, or the"),
        (
            MEMBER + "heartbeat.interval.ms = 0",
            "member 1 heartbeat.interval.ms: expected at least 1",
        ),
        (MEMBER + "retry.backoff.ms = 0", "member 1 retry.backoff.ms: expected at least 1 ms, fou"),
        *(
            (
                MEMBER + f'{name} = "25d"',
                f"member 1 {name}: expected at most 2,147,483,647 ms, found",
            )
            for name in (
                *("max.poll.interval.ms", "session.timeout.ms"),
                *("heartbeat.interval.ms", "auto.commit.interval.ms"),
            )
        ),
        (MEMBER + "start = 2020-01-01", "line 6: member 1 start: expected milliseconds below 2^53"),
        ("member = 3\n", "line 1: member: expected [[member]], one table or several, found 3"),
        (
            MEMBER.replace('"a"', '"coordinator"'),
            "line 4: member 1 name: expected a name that nothing",
        ),
        (
            MEMBER + "x = " + "[" * 5_000 + "]" * 5_000,
            "line 6: expected at most 20 levels of tables",
        ),
        (
            MEMBER + "x = " + "{a=" * 5_000 + "1" + "}" * 5_000,
            "line 6: expected at most 20 levels of t",
        ),
        (MEMBER + "x = " + "7" * 5_000, "line 6: expected numbers of at most 1000 digits, found a"),
        (
            'duration = "10m"\n' + MEMBER + 'start = "1h"',
            "line 7: member 1 start: expected a time before the end (duration, 600000 ms), found",
        ),
        (
            'duration = "1s"\n' + MEMBER + 'start = 0\ncount = 3\nevery = "1s"',
            "line 9: member 1 every: expected a time before the end (duration, 1000 ms), found",
        ),
        (
            'duration = "10s"\n' + MEMBER + '[[step]]\nat = "1m"\ndo = "stop"\nmember = "a"',
            "line 8: step 1 at: expected a time before the end (duration, 10000 ms), found",
        ),
        (
            "[members]\nheartbeat.interval.ms = '1h'\n" + MEMBER,
            "line 2: members heartbeat.interval.ms: expected a heartbeat interval below the sess",
        ),
        ("[members]\ncolour = 1\n" + MEMBER, "line 2: members colour: expected "),
        (MEMBER + 'start = "99999999999h"', "line 6: member 1 start: expected milliseconds below"),
        (MEMBER + "[brokers]\ncount = 0", "line 7: brokers count: expected a number from 1"),
        (MEMBER + "[brokers]\ncount = 1001", "line 7: brokers count: expected a number from 1"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    found = refused(text)
    assert message in found
    assert "found" in found


def test_a_wrong_regular_expression_is_said_in_its_own_words() -> None:
    text = MEMBER.replace('topics = "orders"', 'pattern = "("')
    assert refused(text).startswith("s.toml: line 5: member 1 pattern: '(' is no regular expr")


def test_every_field() -> None:
    scenario = read(
        """
        title = "All"
        about = "Much."
        group = "billing"
        version = "3.9.2"
        duration = "10m"
        rate = 2.5

        [topics]
        orders = 6
        "orders.eu" = 2

        [brokers]
        count = 2
        delay = ["1ms", "9ms"]
        load = "1s"
        failover = "2s"
        group.initial.rebalance.delay.ms = 0
        group.max.size = 5

        [members]
        topics = "orders"
        session.timeout.ms = "20s"

        [[member]]
        name = "m"
        count = 2
        start = "1s"
        every = "2s"
        group.instance.id = "i"
        client.rack = "r"
        processing = 100

        [[member]]
        name = "p"
        pattern = 'orders\\..*'
        partition.assignment.strategy = "org.apache.kafka.clients.consumer.StickyAssignor,range"
        offsets = "external"

        [[step]]
        at = "1m"
        do = "restart"
        member = ["m1", "m2"]
        every = "10s"
        for = "3s"
        set = { session.timeout.ms = "30s" }
        """
    )
    assert (scenario.title, scenario.about, scenario.group_id) == ("All", "Much.", "billing")
    assert scenario.settings.version == (3, 9, 2)
    assert (scenario.settings.initial_rebalance_delay_ms, scenario.settings.max_size) == (0, 5)
    assert (scenario.duration_ms, scenario.rate, scenario.brokers) == (600_000, 2.5, 2)
    assert (scenario.delay_ms, scenario.load_ms, scenario.failover_ms) == ((1, 9), 1_000, 2_000)
    assert scenario.topics == {"orders": 6, "orders.eu": 2}
    assert list(scenario.members) == ["m1", "m2", "p"]
    second = scenario.members["m2"].config
    assert (second.client_id, second.instance_id, second.rack) == ("m2", "i2", "r")
    assert (second.session_timeout_ms, second.topics) == (20_000, ("orders",))
    pattern = scenario.members["p"].config
    assert pattern.strategies == ("sticky", "range")
    assert pattern.pattern is not None
    assert [pattern.pattern(each) for each in ("orders", "orders.eu")] == [False, True]
    assert scenario.members["p"].offsets is KeptIn.EXTERNAL
    assert [(step.at_ms, step.action, step.member) for step in scenario.steps] == [
        (1_000, Action.START, "m1"),
        (3_000, Action.START, "m2"),
        (60_000, Action.RESTART, "m1"),
        (70_000, Action.RESTART, "m2"),
    ]
    plan = scenario.steps[-1].plan
    assert isinstance(plan, MemberPlan)
    assert (plan.config.session_timeout_ms, plan.config.client_id) == (30_000, "m2")


@pytest.mark.parametrize(
    ("version", "session_ms", "strategies"),
    [
        ("1.1.1", 10_000, ("range",)),
        ("2.8.2", 10_000, ("range",)),
        ("3.0", 45_000, ("range", "cooperative-sticky")),
    ],
)
def test_defaults_are_those_of_the_version(
    version: str, session_ms: int, strategies: tuple[str, ...]
) -> None:
    """KIP-726 and KIP-735 changed them in 3.0."""
    config = read(f'version = "{version}"\n{MEMBER}').members["a"].config
    assert (config.session_timeout_ms, config.strategies) == (session_ms, strategies)


def test_defaults_are_those_of_kafka_4_3_1() -> None:
    """As `defaultValues()` of its `ConsumerConfig` and `GroupCoordinatorConfig` prints them."""
    scenario = read(MEMBER)
    assert scenario.members["a"].config == ConsumerConfig(
        "group",
        "a",
        ("orders",),
        group_protocol="classic",
        remote_assignor=None,
        strategies=("range", "cooperative-sticky"),
        session_timeout_ms=45_000,
        heartbeat_interval_ms=3_000,
        max_poll_interval_ms=300_000,
        enable_auto_commit=True,
        auto_commit_interval_ms=5_000,
        metadata_max_age_ms=300_000,
        retry_backoff_ms=100,
    )
    assert scenario.consumer_settings == ConsumerSettings(
        session_timeout_ms=45_000,
        heartbeat_interval_ms=5_000,
        max_size=2_147_483_647,
        assignors=("uniform", "range"),
        assignment_interval_ms=1_000,
        regex_refresh_interval_ms=600_000,
        migration_policy=MigrationPolicy.BIDIRECTIONAL,
    )


@pytest.mark.parametrize(
    ("version", "max_session_ms", "retention_minutes"),
    [
        ("1.1.1", 300_000, 1_440),
        ("2.0", 300_000, 10_080),
        ("2.3", 1_800_000, 10_080),
        ("4.3.1", 1_800_000, 10_080),
    ],
)
def test_defaults_of_brokers_are_those_of_the_version(
    version: str, max_session_ms: int, retention_minutes: int
) -> None:
    """As `kafka.server.Defaults` and `GroupCoordinatorConfig` say since KIP-186 and KIP-345."""
    settings = read(f'version = "{version}"\n{MEMBER}').settings
    assert (settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (
        6_000,
        max_session_ms,
    )
    assert (settings.initial_rebalance_delay_ms, settings.offset_metadata_max_size) == (
        3_000,
        4_096,
    )
    assert settings.max_size == 2_147_483_647
    assert settings.offsets_retention_ms == retention_minutes * 60_000
    assert settings.offsets_retention_check_interval_ms == 600_000


def test_what_a_scenario_does_not_say_is_as_its_fields_are_described() -> None:
    member = read(MEMBER).members["a"]
    for here in (read(MEMBER), Scenario("group", {}, {}, (), 0)):
        assert (here.brokers, here.rate, here.jitter_ms, here.delay_ms) == (3, 10, 0, (1, 5))
        assert (here.load_ms, here.failover_ms, here.tick_ms) == (200, 9_000, 2_000)
    for plan in (member, MemberPlan(member.config)):
        assert (plan.processing_ms, plan.offsets) == (500, KeptIn.KAFKA)
    reader = read('protocol = "zookeeper"\n' + MEMBER).connectors["a"]
    assert reader.config.registration.subscription == {"orders": 1}
    for plan_on_zookeeper in (reader, ZookeeperMemberPlan(reader.config)):
        assert plan_on_zookeeper.processing_ms == 50


@pytest.mark.parametrize(
    ("version", "setting"),
    [
        ("2.3", 'group.instance.id = "i"'),
        ("2.4", 'partition.assignment.strategy = "cooperative-sticky"'),
        ("4.3", 'group.protocol = "consumer"'),
        ("4.3", '[brokers]\ngroup.consumer.heartbeat.interval.ms = "3s"'),
    ],
)
def test_a_setting_may_be_used_in_its_first_version(version: str, setting: str) -> None:
    """KIP-345 and KIP-429; the consumer protocol of 4.3 is the one that is simulated."""
    assert read(f'version = "{version}"\n{MEMBER}{setting}').members.keys() == {"a"}


@pytest.mark.parametrize(("text", "count"), [("", 3), ("count = 1", 1), ("count = 1000", 1000)])
def test_brokers_are_three_unless_it_is_said_how_many(text: str, count: int) -> None:
    assert read(f"{MEMBER}[brokers]\n{text}").brokers == count


@pytest.mark.parametrize("rate", [0, 0.5])
def test_records_may_come_slowly_or_not_at_all(rate: float) -> None:
    assert read(f"rate = {rate}\n{MEMBER}").rate == rate


def test_fields_are_told_apart() -> None:
    """Every field that is refused as unknown names the one that was meant."""
    for table in ("member", "step"):
        for field in FIELDS[table]:
            if field == "…":
                continue
            wrong = field[:-1] + ("x" if field[-1] != "x" else "y")
            text = f'{MEMBER}[[step]]\nat = 1\ndo = "stop"\n' if table == "step" else MEMBER
            if wrong not in FIELDS[table]:
                assert field in refused(f'{text}"{wrong}" = 1\n')


ZOOKEEPER = """
protocol = "zookeeper"
[topics]
orders = 4
[[member]]
name = "a"
"""


def test_consumers_on_zookeeper() -> None:
    scenario = read(
        """
        protocol = "zookeeper"
        version = "0.8.2.2"
        [topics]
        orders = 4
        payments = 1
        [brokers]
        tickTime = "3s"
        [members]
        topics = ["orders:2", "payments"]
        streams = 3
        zookeeper.session.timeout.ms = "9s"
        [[member]]
        name = "a"
        count = 2
        start = 0
        consumer.id = "x"
        dual.commit.enabled = false
        [[member]]
        name = "b"
        whitelist = "orders.*"
        [[step]]
        at = "1m"
        do = "pause"
        member = "a1"
        what = "zookeeper"
        for = "10s"
        [[step]]
        at = "2m"
        do = "restart"
        member = "a2"
        set = { offsets.storage = "kafka", blacklist = "x" }
        """
    )
    assert not scenario.members
    assert list(scenario.connectors) == ["a1", "a2", "b"]
    assert scenario.tick_ms == 3_000
    first, second, third = (connector.config for connector in scenario.connectors.values())
    assert first.registration.subscription == {"orders": 2, "payments": 3}
    assert first.registration.is_static
    assert (first.consumer_id, second.consumer_id, third.consumer_id) == ("x1", "x2", None)
    assert first.session_timeout_ms == 9_000
    assert first.dual_commit is False
    assert third.dual_commit is None
    assert third.registration.subscription == {"orders.*": 3}
    assert third.registration.pattern == "white_list"
    (_, _, pause, restart) = scenario.steps
    assert (pause.paused, pause.for_ms) == ("zookeeper", 10_000)
    assert isinstance(restart.plan, ZookeeperMemberPlan)
    assert restart.plan.config.storage == "kafka"
    assert restart.plan.config.registration == Registration(
        {"x": 1}, SubscriptionPattern.BLACK_LIST
    )
    assert restart.plan.config.session_timeout_ms == 9_000


@pytest.mark.parametrize(
    ("settings", "changes", "is_dual"),
    [
        ("", 'offsets.storage = "kafka"', True),
        ('offsets.storage = "kafka"', 'offsets.storage = "zookeeper"', False),
        ('offsets.storage = "kafka"', "dual.commit.enabled = false", False),
        ("dual.commit.enabled = false", 'offsets.storage = "kafka"', False),
    ],
)
def test_dual_commit_goes_with_offsets_in_kafka(settings: str, changes: str, is_dual: bool) -> None:
    """By default `dual.commit.enabled` is whether `offsets.storage` is "kafka"."""
    restart = f'[[step]]\nat = 1\ndo = "restart"\nmember = "a"\nset = {{ {changes} }}\n'
    (step,) = read(f'{ZOOKEEPER}topics = "orders"\n{settings}\n{restart}').steps
    assert isinstance(step.plan, ZookeeperMemberPlan)
    assert step.plan.config.is_dual is is_dual


def test_defaults_on_zookeeper_are_those_of_0_8_2() -> None:
    """`ConsumerConfig.scala` of 0.8.2.2."""
    config = read(f'{ZOOKEEPER}topics = "orders"\n').connectors["a"].config
    assert (config.session_timeout_ms, config.rebalance_backoff_ms) == (6_000, 2_000)
    assert (config.rebalance_max_retries, config.auto_commit_interval_ms) == (4, 60_000)
    assert (config.reset, config.strategy, config.storage) == ("largest", "range", "zookeeper")
    assert (config.fetchers, config.queued_chunks, config.fetch_wait_max_ms) == (1, 2, 100)
    assert (config.refresh_leader_backoff_ms, config.auto_commit) == (200, True)
    assert (config.offsets_channel_backoff_ms, config.offsets_commit_max_retries) == (1_000, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "one of topics, whitelist and blacklist, found none"),
        ('topics = "orders"\nwhitelist = "x"', "one of topics, whitelist and blacklist"),
        ('topics = "payments"', "topics of [topics] (orders), found 'payments'"),
        ('topics = "orders:0"', "with streams"),
        ('topics = "orders:10000"', "with streams"),
        ('topics = "orders:²"', "with streams"),
        ('whitelist = "("', "line 7: member 1 whitelist: '(' is no regular expression: "),
        ('topics = "orders"\nconsumer.id = "a/b"', "consumer.id: expected letters"),
        ('topics = "orders"\n[[step]]\nat = 1\ndo = "add_topic"\ntopic = "a/b"', "a/b"),
        ('topics = "orders"\nauto.offset.reset = "latest"', "largest or smallest"),
        ('topics = "orders"\ngroup.instance.id = "x"', "found 'group.instance.id'"),
        ('topics = "orders"\n[brokers]\n"group.max.size" = 3', "found 'group.max.size'"),
        (
            'topics = "orders"\n[[step]]\nat = 1\ndo = "move_coordinator"',
            "found 'move_coordinator'",
        ),
        (
            'topics = "orders"\n[[step]]\nat = 1\ndo = "commit"\nmember = "a"\ngeneration = 1',
            "there are none on ZooKeeper",
        ),
        (
            'topics = "orders"\n[[step]]\nat = 1\ndo = "pause"\nmember = "a"\nwhat = "zookeeper"',
            "for (its duration)",
        ),
        (
            'topics = "orders"\n[[step]]\nat = 1\ndo = "restart"\nmember = "a"\n'
            "set = { streams = 2 }",
            "topics, whitelist or blacklist as well",
        ),
    ],
)
def test_what_does_not_fit_on_zookeeper(text: str, expected: str) -> None:
    assert expected in refused(f"{ZOOKEEPER}{text}\n")


@pytest.mark.parametrize("version", ["0.8.1", "0.8.2", "0.9.0.1", "1.0"])
def test_older_versions_are_refused(version: str) -> None:
    assert "expected a version" in refused(f'version = "{version}"\n{MEMBER}')


def test_zookeeper_has_one_version() -> None:
    assert "0.8.2, as protocol is zookeeper, found '1.1.1'" in refused(
        f'version = "1.1.1"{ZOOKEEPER}topics = "orders"\n'
    )
    assert "kafka or zookeeper" in refused(f'protocol = "consumer"\n{MEMBER}')


def test_java_has_no_zookeeper() -> None:
    text = f'{MEMBER}[[step]]\nat = 1\ndo = "pause"\nmember = "a"\nwhat = "zookeeper"\nfor = 1\n'
    assert "process or processing" in refused(text)
    assert "tickTime" in refused(f"[brokers]\ntickTime = 3\n{MEMBER}")


def test_names_are_those_that_kafka_allows() -> None:
    assert "expected letters, digits" in refused(MEMBER.replace("orders", '"a/b"', 1))
    assert "group: expected letters" in refused(f'group = "a/b"{ZOOKEEPER}topics = "orders"\n')
    assert read(f'group = "a/b"\n{MEMBER}').group_id == "a/b"  # which a coordinator takes
    odd = ZOOKEEPER.replace('"a"', '"//"')
    (name,) = read(f'{odd}topics = "orders"\n').connectors
    assert name == "//"


@pytest.mark.parametrize("count", [1, 12])
def test_a_topic_of_a_group_that_is_there_keeps_its_partitions(count: int) -> None:
    there = read(MEMBER)
    with pytest.raises(InputError) as exception_info:
        read_scenario(f"[topics]\norders = {count}\n", "s.toml", there)
    assert str(exception_info.value).startswith(
        "s.toml: line 2: topics orders: expected 6, the current number"
    )
    assert "add_partitions" in str(exception_info.value)
    added = read_scenario("[topics]\norders = 6\npayments = 1\n", "s.toml", there)
    assert added.topics == {"orders": 6, "payments": 1}
