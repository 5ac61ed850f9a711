"""`kgroup profile`: what it writes into the user's file, and where a current profile counts."""

from __future__ import annotations

import json
import shlex
import stat
import tomllib
from pathlib import Path

import pytest

from kgroup.model.log_range import LogRange
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND, context_of
from tests.cli.fake_cluster import FakeCluster
from tests.operation.offset_stores import Cluster

SECRET = "s3kret-of-mine"
JAAS = 'o.a.k.PlainLoginModule required username="u" password="{}";'

WRITTEN = """\
# Clusters of the shop.
current = "staging"  # until Friday

# Behind the VPN.
[profiles.prod]   # SASL
bootstrap-server = "kafka-1:9093"
properties."client.id" = '''
[profiles.not-a-table]
'''

[profiles.prod.check]
lag = [
    [1],
]

# Anyone may.
[profiles.staging]
bootstrap-server = "kafka-s:9092"

[other]  # of another program
x = 1
[profiles.prod.sql]
url = "postgresql://me:s3kret-of-mine@db/offsets"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    """Gives the path of the configuration file, in a folder that does not exist."""
    path = tmp_path / "config" / "kgroup" / "config.toml"
    monkeypatch.setenv("KGROUP_CONFIG", str(path))
    return path


@pytest.fixture
def written(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text(WRITTEN)
    file.chmod(0o644)
    return file


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_life_of_profiles(cli: Cli, file: Path) -> None:
    assert cli("profile", "list").err.endswith("add one: kgroup profile add NAME -b HOST:PORT\n")
    settings = ["-X", "client.id=night shift", "-X", f"sasl.jaas.config={JAAS.format('env:PW')}"]
    result = cli("profile", "add", "prod", "-b", "kafka-1:9093,kafka-2", *settings)
    assert (result.status, result.out) == (0, "")
    assert result.err.endswith("to make it the current one: kgroup profile use prod\n")
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert cli("profile", "add", "eu west", "-X", "bootstrap.servers=b").status == 0
    assert cli("profile", "use", "eu west").status == 0
    assert tomllib.loads(file.read_text()) == {
        "current": "eu west",
        "profiles": {
            "prod": {
                "bootstrap-server": "kafka-1:9093,kafka-2",
                "properties": {
                    "client.id": "night shift",
                    "sasl.jaas.config": JAAS.format("env:PW"),
                },
            },
            "eu west": {"properties": {"bootstrap.servers": "b"}},
        },
    }
    assert [*file.parent.iterdir()] == [file]
    listed = json.loads(cli("profile", "list", "-o", "json").out)["data"]
    assert [tuple(row.values()) for row in listed] == [
        ("eu west", True, "b", "PLAINTEXT"),
        ("prod", False, "kafka-1:9093,kafka-2", "PLAINTEXT"),
    ]
    removed = cli("profile", "remove", "eu west")
    assert removed.err.endswith("it was the current profile; none is current now\n")
    assert list(tomllib.loads(file.read_text())) == ["profiles"]
    result = cli("profile", "show")
    assert (result.status, result.out) == (2, "")
    assert "expected a current profile, found none" in result.err


def test_the_rest_of_the_file_stays_as_it_is(cli: Cli, written: Path) -> None:
    assert cli("profile", "use", "prod").status == 0
    assert written.read_text() == WRITTEN.replace('current = "staging"', 'current = "prod"')
    assert mode(written) == 0o600
    assert cli("profile", "use", "staging").status == 0
    assert cli("profile", "add", "new", "-b", "n").status == 0
    added = '\n[profiles.new]\nbootstrap-server = "n"\n'
    assert written.read_text() == WRITTEN + added
    assert cli("profile", "remove", "prod").status == 0
    head, _, rest = WRITTEN.partition("# Behind")
    rest = "# Anyone" + rest.partition("# Anyone")[2].partition("[profiles.prod.sql]")[0]
    assert written.read_text() == head + rest + added.removeprefix("\n")
    assert cli("profile", "remove", "staging").status == 0
    assert written.read_text().startswith("# Clusters of the shop.\n\n[other]")


def test_line_ends_of_windows_stay(cli: Cli, written: Path) -> None:
    written.write_bytes(WRITTEN.replace("\n", "\r\n").encode())
    assert cli("profile", "use", "prod").status == 0
    expected = WRITTEN.replace('current = "staging"', 'current = "prod"').replace("\n", "\r\n")
    assert written.read_bytes() == expected.encode()


def test_a_link_to_the_file_stays(cli: Cli, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text('[profiles.p]\nbootstrap-server = "a"\n')
    file.parent.mkdir(parents=True)
    file.symlink_to(target)
    assert cli("profile", "use", "p").status == 0
    assert file.is_symlink()
    assert target.read_text().startswith('current = "p"\n\n[profiles.p]')


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ('profiles = {a = {bootstrap-server = "a"}}\n', ("remove", "a")),
        ('profiles = {a = {bootstrap-server = "a"}}\n', ("add", "b", "-b", "b")),
        ('profiles.a.bootstrap-server = "a"\n', ("remove", "a")),
        ('[profiles]\na.bootstrap-server = "a"\n', ("remove", "a")),
        ('"current" = "a"\n[profiles.a]\n', ("use", "a")),
        ('x = """\n# y"""\n[profiles.a]\n', ("remove", "a")),
        ("x = '''\ncurrent = \"b\"\n'''\n[profiles.a]\n", ("use", "a")),
    ],
)
def test_a_file_written_otherwise_is_left_to_its_owner(
    cli: Cli, written: Path, text: str, args: tuple[str, ...]
) -> None:
    written.write_text(text)
    result = cli("profile", *args)
    assert (result.status, result.out) == (2, "")
    assert "Edit the file by hand" in result.err
    assert written.read_text() == text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("add prod -b a", "profile 'prod' exists in"),
        ("add p", "bootstrap.servers is not set"),
        ("add p -b a:b", "expected HOST:PORT"),
        ("add -b a -- -p", "'-p': expected a printable name that does not begin with -"),
        (f"add p -b a -X ssl.key.password={SECRET}", "ssl.key.password (-X): expected the secret"),
        (f"add p -b a -X 'sasl.jaas.config={JAAS.format(SECRET)}'", "sasl.jaas.config (-X): expec"),
        (f"add p -b a -X client.id=https://me:{SECRET}@h", "client.id (-X): expected the secret"),
        ("use prd", "expected a profile 'prd', found none; it has prod"),
        ("remove prd", "expected a profile 'prd', found none; it has prod"),
        ("show prd", "expected a profile 'prd', found none; it has prod"),
    ],
)
def test_refused(cli: Cli, written: Path, args: str, message: str) -> None:
    result = cli("profile", *shlex.split(args))
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert SECRET not in result.err
    assert "[hidden]" not in result.err
    assert written.read_text() == WRITTEN


def test_no_secret_is_shown(cli: Cli, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (written.parent / "prod.properties").write_text(
        f"ssl.key.password={SECRET}\nclient.id=me\nssl.keystore.password=cmd:pass show {SECRET}\n"
        f"zookeeper.digest=file:/run/digest\nsasl.jaas.config={JAAS.format('env:PW')}\n"
    )
    written.write_text(
        '[profiles.p]\ncommand-config = "prod.properties"\nbootstrap-server = "a"\n'
        f'sql.url = "postgresql://me:{SECRET}@db/offsets"\ncheck.lag = 5\n'
    )
    monkeypatch.setenv("KGROUP_PROFILE", "p")
    result = cli("profile", "show", "-o", "json")
    assert SECRET not in result.out + result.err
    folder = written.parent
    assert [tuple(row.values()) for row in json.loads(result.out)["data"]] == [
        ("ssl.key.password", "[hidden]", f"profile 'p', {folder}/prod.properties:1"),
        ("client.id", "me", f"profile 'p', {folder}/prod.properties:2"),
        ("ssl.keystore.password", "cmd:pass …", f"profile 'p', {folder}/prod.properties:3"),
        ("zookeeper.digest", "file:/run/digest", f"profile 'p', {folder}/prod.properties:4"),
        (
            "sasl.jaas.config",
            "[hidden], password from env:PW",
            f"profile 'p', {folder}/prod.properties:5",
        ),
        ("bootstrap.servers", "a", f"profile 'p' of {written}"),
        ("check.lag", "5", "profile 'p'"),
        ("sql.url", "[hidden]", "profile 'p'"),
    ]


def test_a_list_with_a_file_that_is_gone(cli: Cli, written: Path) -> None:
    written.write_text(
        'current = "gone"\n[profiles.a]\ncommand-config = "gone.properties"\n'
        '[profiles.b]\nbootstrap-server = "b"\n'
    )
    result = cli("profile", "list", "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    assert [tuple(row.values()) for row in document["data"]] == [
        ("a", False, None, None),
        ("b", False, "b", "PLAINTEXT"),
    ]
    assert [error["kind"] for error in document["errors"]] == ["unreadable"]
    assert "the current profile 'gone' does not exist" in result.err


def test_names_are_completed(written: Path) -> None:
    for name in ("use", "remove", "show"):
        command = EVERY_COMMAND[f"profile {name}"]
        with command.make_context(
            name, [], context_of(f"profile {name}"), resilient_parsing=True
        ) as ctx:
            items = command.params[0].shell_complete(ctx, "p")
        assert [item.value for item in items] == ["prod"]


# ---- where a current profile counts

BROKERS = {
    "-b b:1": "b:1",
    "-X bootstrap.servers=x:1": "x:1",
    "--command-config server.properties": "file:1",
    "--command-config other.properties": "kafka-1:9093",
    "-X client.id=me": "kafka-1:9093",
    "-C staging": "kafka-s:9092",
    "": "kafka-1:9093",
}


@pytest.fixture
def current(
    cli: Cli, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> FakeCluster:
    """Gives a cluster behind all names, while the profile prod is current."""
    written.write_text(
        'current = "prod"\n[profiles.prod]\nbootstrap-server = "kafka-1:9093"\n'
        'properties.client.id = "prod"\nsql.url = "sqlite:///offsets.db"\ncheck.lag = 1\n'
        '[profiles.staging]\nbootstrap-server = "kafka-s:9092"\n'
    )
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text("bootstrap.servers=file:1\n")
    Path("other.properties").write_text("retry.backoff.ms=9\n")
    return cluster


@pytest.mark.parametrize("options", BROKERS)
def test_the_current_profile_is_the_weakest(cli: Cli, current: FakeCluster, options: str) -> None:
    result = cli("list", "--no-lag", *options.split())
    assert (result.status, result.err) == (0, "")
    (made,) = current.made
    assert made["bootstrap"] == [BROKERS[options]]
    is_prod = BROKERS[options] == "kafka-1:9093" and "client.id" not in options
    expected = "prod" if is_prod else "me" if "client.id" in options else "kgroup"
    assert made["client_id"] == expected  # nothing of a profile for another cluster


def test_the_environment_is_stronger(
    cli: Cli, current: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGROUP_PROFILE", "staging")
    assert cli("list", "--no-lag").status == 0
    monkeypatch.delenv("KGROUP_PROFILE")
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "e:1")
    assert cli("list", "--no-lag").status == 0
    assert [made["bootstrap"] for made in current.made] == [["kafka-s:9092"], ["e:1"]]
    assert [made["client_id"] for made in current.made] == ["kgroup", "kgroup"]


def test_other_sources_do_without_it(cli: Cli, current: FakeCluster, tmp_path: Path) -> None:
    snapshot = tmp_path / "s.json"
    assert cli("snapshot", "--sample", "--all", "-f", snapshot).status == 0
    for source in (("--sample",), ("--snapshot", snapshot)):
        assert "order-service" in cli("list", "--no-lag", *source).out
    assert current.made == []


def test_a_current_profile_that_is_gone(cli: Cli, written: Path) -> None:
    written.write_text('current = "gone"\n[profiles.a]\nbootstrap-server = "a"\n')
    result = cli("list")
    assert (result.status, result.out) == (2, "")
    assert "expected a profile 'gone', found none; it has a" in result.err


def test_a_user_without_home_needs_no_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KGROUP_CONFIG", "")
    monkeypatch.setenv("HOME", str(tmp_path / "no-such-home"))
    assert cli("coordinator", "billing").status == 0


# ---- where it is named


class Live(Cluster):
    """A cluster with a group "g" of two members, and an empty group "e"."""

    def __init__(self) -> None:
        ranges = {("orders", 0): LogRange(0, 9)}
        super().__init__({"e": {("orders", 0): 5}}, ranges, members={"g": 2})

    def __call__(self, bootstrap: list[str], **options: object) -> Live:
        return self

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    "line",
    [
        "members remove g --all",
        "members remove g --all --execute --yes",
        "offsets reset e --to-earliest",
        "offsets delete e --topic orders",
        "plan static-membership g",
    ],
)
def test_plans_name_the_profile(
    cli: Cli, written: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.source.broker.source.LiveCluster", Live())
    name = "kgroup: note: profile staging (kafka-s:9092)\n"
    assert name in cli(*line.split()).err  # the current one
    assert (
        name.replace("kafka-s:9092", "b:1") in cli(*line.split(), "-C", "staging", "-b", "b:1").err
    )
    assert "profile" not in cli(*line.split(), "-b", "b:1").err
