"""Inputs for the readers of what people write, and what each must come to.

An input says in its first line who reads it. The reader takes it, or ends in an error that says
why (`KgroupError`, for single values `ValueError`); whatever else it does is a finding.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import click

from kgroup.cli.option.connection import Connection
from kgroup.cli.option.parameter import (
    parse_bytes,
    parse_duration,
    parse_end,
    parse_instant,
    parse_seconds,
    parse_time,
    parse_topics,
)
from kgroup.cli.option.store import SqlNames, parse_store
from kgroup.errors import KgroupError
from kgroup.model.offset import StoredOffset, StoreName
from kgroup.model.pattern import parse_regex
from kgroup.model.snapshot import Origin, Snapshot
from kgroup.model.zookeeper import Node, Stat
from kgroup.operation.assign.dry_run import AssignRequest, assign_specs
from kgroup.operation.assign.spec import read_specs
from kgroup.operation.check.check import Request, check
from kgroup.operation.check.look import parse_limit, read_baseline
from kgroup.operation.describe import describe
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.diff import diff_offsets
from kgroup.operation.offsets.read import show_offsets
from kgroup.operation.offsets.transfer import plan_transfer
from kgroup.operation.report import Report
from kgroup.operation.simulate import scenario_names, shipped_scenario, simulate
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.operation.zookeeper.fetcher import OffsetReset, list_fetches
from kgroup.operation.zookeeper.nodes import list_consumers, list_nodes, list_owners
from kgroup.protocol.zookeeper.topic_filter import parse_filter
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from kgroup.redaction import forget_secrets
from kgroup.render.form import SEPARATED, page_text
from kgroup.render.json_document import json_document, json_rows
from kgroup.render.markup import MARKUPS
from kgroup.render.offsets import (
    DIFFERENCE_COLUMNS,
    PLAN_COLUMNS,
    STORED_COLUMNS,
    file_lines,
    plan_page,
    plan_totals,
)
from kgroup.render.sheet import Sheet
from kgroup.sample import sample_log_dir
from kgroup.simulation.scenario.file import read_scenario
from kgroup.source.config.client_config import client_config
from kgroup.source.config.profile import read_sql_profile
from kgroup.source.log.source import LogDir
from kgroup.source.offset_file import OffsetFile
from kgroup.source.snapshot.file import read_snapshot, snapshot_lines
from kgroup.source.snapshot.source import SnapshotSource, snapshot_source
from kgroup.source.sql.address import parse_address as parse_sql_address
from kgroup.source.sql.address import parse_sql_profile
from kgroup.source.sql.layout import TableLayout, renamed
from kgroup.source.zookeeper.address import parse_address
from tests.broker.key_stores import FOLDER, KEY_PASSWORD, STORE_PASSWORD
from tests.fuzz.mutation import Input
from tests.fuzz.run import Lane
from tests.fuzz.text_mutation import as_json, changed_bytes, changed_tree
from tests.recorded_tree import TREES, recorded_nodes, recorded_snapshot

_MARK = b"read by "
_MOST_PARTITIONS = 2000
"""Of a spec that is assigned as well; more take their time, rightly."""
_MOST_PLAYED = 100
_MOST_POLLS = 10_000
"""Members, partitions and steps of a scenario that is played; its polls or fetches; likewise."""


@dataclass(frozen=True)
class _Reader:
    """Something that reads what people write.

    Attributes:
        read: takes the input, and a folder to write it to.
        samples: sound inputs.
        is_tree: whether they are JSON, so that values can be changed as well as bytes.
        weight: how often it is tried; what is slow by design, less often.
    """

    read: Callable[[bytes, Path], object]
    samples: Callable[[], Sequence[bytes]]
    is_tree: bool = False
    weight: int = 20


def _make_setting(seed: int, number: int) -> Input:
    """Make an input; equal numbers of equal seeds give equal ones."""
    random = Random(f"settings/{seed}/{number}")
    name = random.choices(list(_READERS), [reader.weight for reader in _READERS.values()])[0]
    reader = _READERS[name]
    samples = _samples(name)
    data = random.choice(samples)
    if reader.is_tree and random.random() < 0.6:
        data = as_json(changed_tree(json.loads(data), random))
    else:
        data = changed_bytes(data, samples, random)
    if name == "snapshot" and random.random() < 0.2:
        data = gzip.compress(data, 1, mtime=0)
        data = data if random.random() < 0.3 else changed_bytes(data, samples, random)
    return Input(name, _MARK + name.encode() + b"\n" + data, random)


def _check_setting(data: bytes, folder: Path, random: Random) -> None:
    """Give an input to its reader.

    Raises:
        Exception: anything that is not meant to end a command.
    """
    mark, _, content = data.partition(b"\n")
    forget_secrets()  # of other inputs: a process of kgroup's has its own alone
    with suppress(KgroupError):
        _READERS[mark.removeprefix(_MARK).decode()].read(content, folder)


def _read_sound_settings(folder: Path) -> None:
    """Read every sample: each must be taken, or the fuzzer would try nothing."""
    for name, reader in _READERS.items():
        for sample in _samples(name):
            reader.read(sample, folder)


@cache
def _samples(name: str) -> Sequence[bytes]:
    return tuple(_READERS[name].samples())


# ---- settings of a connection

_JAAS = "org.apache.kafka.common.security.{}.{}LoginModule required {};"
_LOGINS = {
    "PLAIN": _JAAS.format("plain", "Plain", 'username="alice" password="s3\\"kret\\101"'),
    "SCRAM-SHA-256": _JAAS.format("scram", "Scram", "username='a,b' /* c */ password=\"d\""),
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule required serviceName=kafka // x\n;",
    "OAUTHBEARER": _JAAS.format(
        "oauthbearer",
        "OAuthBearer",
        'unsecuredLoginStringClaim_sub="a" unsecuredLoginNumberClaim_n="1.5" '
        'unsecuredLoginListClaim_l="|a|b" unsecuredLoginLifetimeSeconds="60"',
    ),
}
_HANDLER = "sasl.login.callback.handler.class=a.b.OAuthBearerLoginCallbackHandler\n"


def _properties() -> Sequence[bytes]:
    common = (
        "# of a test\nbootstrap.servers = one:9093, [::1]:9094,\\\n   two\nclient.id:caf\\u00e9\n"
        "request.timeout.ms 5000\nmetadata.max.age.ms=9223372036854775807\nretries=3\n"
        "client.dns.lookup=use_all_dns_ips\n"
    )
    store = (
        f"security.protocol=SSL\nssl.truststore.location={FOLDER}/trust.jks\n"
        f"ssl.truststore.password={STORE_PASSWORD}\nssl.keystore.location={FOLDER}/client.jks\n"
        f"ssl.keystore.password={STORE_PASSWORD}\nssl.key.password={KEY_PASSWORD}\n"
        "ssl.enabled.protocols=TLSv1.2,TLSv1.3\nssl.cipher.suites="
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256\n"
        "ssl.endpoint.identification.algorithm=\n"
    )
    zookeeper = (
        f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location={FOLDER}/trust.p12\n"
        f"zookeeper.ssl.truststore.password={STORE_PASSWORD}\nzookeeper.digest=a:b\n"
    )
    texts = [common, common + store, common + zookeeper]
    for mechanism, jaas in _LOGINS.items():
        escaped = jaas.replace("\\", "\\\\").replace("\n", "\\n")
        texts.append(
            f"{common}security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={escaped}\n"
        )
    secured = _JAAS.format("oauthbearer", "OAuthBearer", 'clientId="a" clientSecret="b" scope=c')
    texts.append(
        f"{common}security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{_HANDLER}"
        f"sasl.oauthbearer.token.endpoint.url=https://[::1]:8443/token?a=b\n"
        f"sasl.jaas.config={secured}\nsasl.login.connect.timeout.ms=1000\n"
    )
    return [text.encode("latin-1") for text in texts]


def _read_properties(data: bytes, folder: Path) -> None:
    file = folder / "client.properties"
    file.write_bytes(data)
    _use(command_config=file)


def _use(**given: Any) -> None:
    """Put a configuration together as far as it goes without a network."""
    config = client_config(environment={}, needs_server=False, **given)
    options = config.kafka_options()
    provider = options.get("sasl_oauth_token_provider")
    if provider is not None:
        provider.extensions()
        if type(provider).__name__ != "EndpointToken":
            provider.token()
    if config.zookeeper_tls is not None:
        config.zookeeper_tls.context()


def _profiles() -> Sequence[bytes]:
    return [
        b'[profiles.p]\nbootstrap-server = "kafka-1:9093,kafka-2:9093"  # here\n'
        b'[profiles.p.properties]\nclient.id = "night"\n"retries" = 3\nrequest.timeout.ms = 0x10\n'
        b"check.crcs = true\n[profiles.q]\ncommand-config = 'prod.properties'\n",
        b'profiles = {p = {bootstrap-server = """a:1""", properties = {"client.id" = \'x\'}}}\n',
        b'[profiles.p.sql]\nurl-env = "DATABASE"\ntable = \'app."t.x"\'\n[profiles.p.sql.columns]\n'
        b'offset = "next_offset"\ngeneration = "generation"\n',
        b"[profiles]\np.bootstrap-server = 'a'\np.properties.a.b.\"c d\".e = -7\n"
        b"other = [1, 2.5, {f = 1979-05-27}]\n[[profiles.list]]\nx = -inf\n"
        b"[[profiles.list]]\ny = 07:32:00.999\n",
    ]


def _read_profile(data: bytes, folder: Path) -> None:
    file = folder / "config.toml"
    file.write_bytes(data)
    environment = {"KGROUP_CONFIG": str(file), "DATABASE": "sqlite:///a.db"}
    client_config(environment=environment, profile="p", needs_server=False).kafka_options()
    profile = read_sql_profile("p", file)
    if profile is not None:
        parse_sql_profile(*profile, folder, environment)


def _overrides() -> Sequence[bytes]:
    return [
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}".encode()
        for mechanism, jaas in _LOGINS.items()
        if "\n" not in jaas
    ]


def _read_overrides(data: bytes, folder: Path) -> None:
    _use(overrides=data.decode("utf-8", "surrogateescape").split("\n"), bootstrap_server="a:1")


_STORES = ("client.jks", "client.p12", "client-legacy.p12", "trust.jks", "trust.p12", "client.pem")


def _stores() -> Sequence[bytes]:
    return [(FOLDER / name).read_bytes() for name in _STORES]


def _read_store(data: bytes, folder: Path) -> None:
    """Read it as whatever it seems to be, as a trust store and a key store."""
    file = folder / "store"
    file.write_bytes(data)
    is_pem = b"-----BEGIN" in data
    words = [f"type={'PEM' if is_pem else 'JKS'}", f"location={file}"]
    words += [] if is_pem else [f"password={STORE_PASSWORD}"]
    # With something to trust, the system's authorities, which take long to load, are left out.
    trusted = ["ssl.truststore.type=PEM", f"ssl.truststore.location={FOLDER}/ca.pem"]
    others = {"truststore": [], "keystore": [*trusted, f"ssl.key.password={KEY_PASSWORD}"]}
    for kind, other in others.items():
        with suppress(KgroupError):
            own = [f"ssl.{kind}.{word}" for word in words]
            _use(overrides=["security.protocol=SSL", *own, *other])


# ---- specs, snapshots, nodes


def _specs() -> Sequence[bytes]:
    classic = {
        "id": "g",
        "strategy": "cooperative-sticky",
        "topics": {"a": {"partitions": 3, "racks": [["x"], ["y"], []]}, "b": {"partitions": 2}},
        "members": [
            {"member_id": "m1", "topics": ["a", "b"], "owned": [["a", 0]], "generation": 3,
             "rack": "x", "instance_id": "i", "client_id": "c", "protocol_version": 3},
            {"member_id": "m2", "topics": ["a"], "user_data": "AAAAAw=="},
        ],
    }  # fmt: skip
    consumer = {
        "protocol": "consumer",
        "strategy": "uniform",
        "topics": {"a": {"partitions": 4}},
        "topic_ids": {"a": "AAAAAAAAAAAAAAAAAAAAAQ"},
        "members": [{"member_id": "m", "topics": ["a"], "rack": None}],
    }
    zookeeper = {
        "protocol": "zookeeper",
        "kafka_version": "0.8.2.2",
        "strategy": "roundrobin",
        "topics": {"a": {"partitions": 4}},
        "members": [{"member_id": "m", "streams": {"a": 2}, "owned": [["a", 0, 1], ["a", 1]]}],
    }
    each = [as_json(spec) for spec in (classic, consumer, zookeeper)]
    share = as_json({**consumer, "protocol": "share", "strategy": "simple"})
    return [*each, share]


def _read_spec(data: bytes, folder: Path) -> None:
    read = read_specs(data, "spec.json")
    count = sum(topic.partitions for spec in read.data for topic in spec.topics.values())
    if count < _MOST_PARTITIONS:
        assign_specs(data, "spec.json", AssignRequest())


def _scenarios() -> Sequence[bytes]:
    return [shipped_scenario(name).encode() for name in scenario_names()]


def _read_scenario(data: bytes, folder: Path) -> None:
    """Read a scenario, and play what is small of it, for not too long."""
    scenario = read_scenario(data.decode("utf-8", "replace"), "scenario.toml")
    count = sum(scenario.topics.values()) + sum(step.count for step in scenario.steps)
    count += len(scenario.members) + len(scenario.connectors) + len(scenario.steps)
    rate = sum(1000 / member.processing_ms for member in scenario.members.values())
    for config in (connector.config for connector in scenario.connectors.values()):
        count += sum(config.registration.subscription.values())
        fetches = min(max(scenario.rate, 1000 / config.fetch_wait_max_ms), 1000)
        rate += fetches * config.fetchers * scenario.brokers
    if count < _MOST_PLAYED and rate * scenario.duration_ms < _MOST_POLLS * 1000:
        simulate(scenario)


def _read_snapshot(data: bytes, folder: Path) -> None:
    file = folder / "snapshot.json"
    file.write_bytes(data)
    _ask(snapshot_source(read_snapshot(file)))


def _ask(source: SnapshotSource) -> None:
    """Ask for everything that describes groups, and what only ZooKeeper has."""
    describe(source)
    check(source, Request(), lambda: source.snapshot.taken_ms)
    if source.snapshot.zookeeper is not None:
        list_consumers(source)
        list_owners(source)
        list_nodes(source)
        for group_id in source.snapshot.group_ids[:3]:
            with suppress(KgroupError):
                list_fetches(source, group_id, count=1, reset=OffsetReset.LARGEST)


def _snapshots() -> Sequence[bytes]:
    """The recorded cluster's and ZooKeeper's, a few groups each: what is small is tried often."""
    cluster = _tree_of(
        take_snapshot(LogDir([sample_log_dir()]), Origin("sample"), taken_ms=1).data[0]
    )
    zookeeper = _tree_of(recorded_snapshot())
    groups, nodes = cluster["groups"], zookeeper["zookeeper"]
    return [
        *(as_json({**cluster, "groups": groups[at : at + 3]}) for at in range(0, len(groups), 3)),
        *(as_json({**zookeeper, "zookeeper": nodes[at : at + 50]}) for at in range(0, 250, 50)),
    ]


def _tree_of(snapshot: Snapshot) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(b"".join(snapshot_lines(snapshot)))
    return tree


def _trees() -> Sequence[bytes]:
    """Nodes of recorded trees, a window of some that follow each other."""
    found = []
    for name in TREES:
        nodes = [[node["path"], node.get("text")] for node in recorded_nodes(name)]
        found += [as_json(nodes[at : at + 60]) for at in range(0, len(nodes), 40)]
    return found


def _read_tree(data: bytes, folder: Path) -> None:
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError):
        return
    stat = Stat(1, 2, 3, 4, "0x1", 0)
    nodes = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, list) or len(row) != 2 or not str(row[0]).startswith("/"):
            continue
        text = row[1] if isinstance(row[1], str | None) else json.dumps(row[1])
        content = None if text is None else text.encode("utf-8", "surrogatepass")
        nodes.append(Node(str(row[0]), content, stat))
    decode_tree(tree_of(nodes))


# ---- files of offsets, and how stores are named


def _some_offsets() -> Sequence[StoredOffset]:
    rows = show_offsets(_recorded_groups(), ("order-service",)).data
    return [*rows[:4], StoredOffset('say "hi", späť', "orders", 7, None)]


def _offset_documents() -> Sequence[bytes]:
    some = _some_offsets()
    name = StoreName("the cluster kafka-1:9092", "5L6g3nShT-eMCtK--X86sw")
    return [b"".join(file_lines(offsets, "json", store=name)) for offsets in (some[:1], some)]


def _offset_files() -> Sequence[bytes]:
    """Files in each form, and what Kafka's tool prints."""
    some = _some_offsets()
    table = b"\nGROUP  TOPIC  PARTITION  NEW-OFFSET\norder-service  orders  0  3\n"
    return [table, table.decode().encode("utf-16")] + [
        b"".join(file_lines(offsets, form, with_group=with_group))
        for offsets in (some[:1], some)
        for form, with_group in (
            ("json", True),
            ("jsonl", True),
            ("kafka-csv", True),
            ("kafka-csv", False),
        )
    ]


def _plans() -> Sequence[bytes]:
    """Plans in each form, which may be taken for files of offsets."""
    plan = plan_deletion(_recorded_groups(), ("order-service",)).rows
    lines = b"".join(json_rows(plan)).splitlines(keepends=True)
    sheet = Sheet.of(PLAN_COLUMNS, plan)
    return [
        b"".join(lines),
        b"".join(json_document("offsets delete", lines, [])),
        "".join(page_text(plan_page(plan))).encode(),
        *("".join(page_text([sheet], form)).encode() for form in ("table", *SEPARATED, *MARKUPS)),
    ]


def _read_plan(data: bytes, folder: Path) -> None:
    """Take a plan for offsets; unless it was changed into some, that is an error."""
    with suppress(KgroupError):
        _read_offset_file(data, folder)


def _read_offset_file(data: bytes, folder: Path) -> None:
    """Show a file, compare it, and plan to import it: one group of it, which must be, and all."""
    path = folder / "offsets"
    path.write_bytes(data)
    _use_offsets(OffsetFile(path), ("order-service",))
    with suppress(KgroupError):  # offsets of one group in CSV say not of which
        _use_offsets(OffsetFile(path), ())


def _use_offsets(file: OffsetFile, group_ids: tuple[str, ...]) -> None:
    shown = show_offsets(file, group_ids)
    _write(shown, Sheet.of(STORED_COLUMNS, shown.data))
    for form in ("json", "kafka-csv"):
        with suppress(KgroupError):
            b"".join(file_lines(shown.data, form))
    groups = _recorded_groups()
    plan = plan_transfer(file, groups, groups, group_ids)
    _write(plan.report, Sheet.of(PLAN_COLUMNS, plan.rows))
    "".join(page_text(plan_page(plan.rows), terminal=True))
    plan_totals(plan.rows)
    b"".join(file_lines(plan.backup, "json"))
    differing = diff_offsets(file, groups, group_ids)
    _write(differing, Sheet.of(DIFFERENCE_COLUMNS, differing.data))


def _write(report: Report[Any], sheet: Sheet) -> None:
    b"".join(json_rows(report.data))
    b"".join(json_rows(report.errors))
    "".join(page_text([sheet.without_blank()], terminal=True))


@cache
def _recorded_groups() -> SnapshotSource:
    taken = take_snapshot(LogDir([sample_log_dir()]), Origin("sample"), taken_ms=1)
    return SnapshotSource(taken.data[0])


def _stores_named() -> Sequence[bytes]:
    """A store, a table, and a column of it, a line each."""
    named = "app.t_offset\nleader-epoch=epoch"
    texts = (
        *("kafka", "kafka:one:9092,[::1]:9093", "zookeeper:zk-1:2181,zk-2/kafka", "log-dir:a/b"),
        *("sql", "sql:postgresql://a:b%40@h:1/d?sslmode=require&password=c", "sql:@file", "sample"),
        *("mysql+pymysql://a@[::1]/d?charset=utf8mb4", "sqlite:////a/b.db?mode=ro", "sql:a.db"),
        *("file:a.json", "snapshot:~/b.json.gz", "c.csv", "-"),
    )
    return [f"{text}\n{named}".encode() for text in texts]


def _read_store_named(data: bytes, folder: Path) -> None:
    text, _, rest = data.decode("utf-8", "surrogateescape").partition("\n")
    table, _, columns = rest.partition("\n")
    with suppress(click.ClickException):
        store = parse_store(text, Connection(None, None, (), None, 1.0), SqlNames())
        if store.sql is not None and not store.sql.startswith("@"):  # names a file with a URL
            parse_sql_address(store.sql)
    renamed(TableLayout(), table or None, columns.split("\n"))


# ---- single values


def _baselines() -> Sequence[bytes]:
    """Findings, as documents and as lines."""
    report = check(LogDir([sample_log_dir()]), Request(), lambda: None).report
    lines = [bytes(line) for line in json_rows(report.data)]
    return [b"".join(json_document("check", lines, ())), b"\n".join(lines)]


def _read_baseline(data: bytes, folder: Path) -> None:
    read_baseline(data, "known.json")


def _read_limit(text: str) -> None:
    name, _, value = text.partition("=")
    parse_limit(name, value)


_PARSERS: Sequence[Callable[[str], object]] = (
    *(parse_instant, parse_time, parse_duration, parse_seconds, parse_end, parse_bytes),
    *(parse_regex, parse_filter, parse_address),
    lambda text: parse_topics(text.split(" ")),
    _read_limit,
)


def _values() -> Sequence[bytes]:
    return [
        *(b"2023-11-14T22:13:20.004Z", b"0001-01-01T00:00:00+14:00", b"1700000000000", b"1d12h"),
        *(b"now", b"offset:42", b"hex:00 01", b"AAAAAQ==", b"(a|b)*c{1,3}[^d]\\d", b"a,b.*|x"),
        *(b"3.5", b"zk1:2181,[::1]:2182/kafka/x", b"9999-12-31T23:59:59-14:00"),
        *(b"orders:0,2 payments orders:7", b"old-commit=1d", b"uneven=2.5"),
    ]


def _read_value(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for parse in _PARSERS:
        try:
            with suppress(KgroupError):
                parse(text)
        except ValueError as error:
            if "set_int_max_str_digits" in str(error):
                raise AssertionError("Python's own limit is shown") from error


_READERS = {
    "properties": _Reader(_read_properties, _properties),
    "profile": _Reader(_read_profile, _profiles),
    "overrides": _Reader(_read_overrides, _overrides),
    "key store": _Reader(_read_store, _stores, weight=1),
    "spec": _Reader(_read_spec, _specs, is_tree=True),
    "scenario": _Reader(_read_scenario, _scenarios, weight=10),
    "snapshot": _Reader(_read_snapshot, _snapshots, is_tree=True),
    "nodes": _Reader(_read_tree, _trees, is_tree=True),
    "offsets": _Reader(_read_offset_file, _offset_files),
    "plans": _Reader(_read_plan, _plans),
    "offsets tree": _Reader(_read_offset_file, _offset_documents, is_tree=True),
    "store name": _Reader(_read_store_named, _stores_named),
    "baseline": _Reader(_read_baseline, _baselines),
    "value": _Reader(_read_value, _values),
}

SETTINGS = Lane(_make_setting, _check_setting, _read_sound_settings, _MARK)
"""What people write."""
