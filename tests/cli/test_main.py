from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from signal import SIGINT

import click
import pytest

import kgroup.__main__
import kgroup.cli.main
from kgroup import __version__
from kgroup.cli.command import zk
from kgroup.cli.main import ALIASES, COMMANDS
from kgroup.cli.usage import _ACTIONS, _COMMANDS
from kgroup.errors import InputError, KgroupError, NotFoundError, UsageError
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND, context_of, split_line
from tests.cli.loaded import loaded_by


def process(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kgroup", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(cli: Cli, option: str) -> None:
    result = cli(option)
    assert result.status == 0
    assert result.err == ""
    assert "Usage: kgroup [OPTIONS] COMMAND" in result.out
    listed = result.out.partition("Commands:")[2].partition("Run 'kgroup")[0]
    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == [*COMMANDS, *ALIASES]


def test_an_alias_is_the_command(cli: Cli) -> None:
    args = ("--sample", "pricing", "--rule", "mixed-protocols", "-o", "json")
    assert cli("why", *args) == cli("check", *args)
    assert cli("why", "--help").out == cli("check", "--help").out
    wrong = cli("why", "--sample", "--no-such-option")
    assert wrong == cli("check", "--sample", "--no-such-option")
    assert wrong.status == 2
    assert ALIASES.items() <= {"why": "check"}.items()
    assert not ALIASES.keys() & COMMANDS.keys()


@pytest.mark.parametrize("name", EVERY_COMMAND)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_each_command(cli: Cli, name: str, option: str) -> None:
    result = cli(*name.split(), option)
    assert result.status == 0
    assert f"Usage: kgroup {name}" in result.out
    assert "Examples:" in result.out


def test_help_of_a_group_of_commands(cli: Cli) -> None:
    result = cli("zk", "--help")
    assert result.status == 0
    listed = result.out.partition("Commands:")[2].partition("Run 'kgroup")[0]
    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == list(zk.command.commands)
    result = cli("zk", "owner")
    assert (result.status, result.out) == (2, "")
    assert "No such command 'owner'. Did you mean owners?" in result.err


def test_the_line_in_the_list_is_the_first_of_the_command_s_own_help() -> None:
    for name, (module, text) in COMMANDS.items():
        command = import_module(f"kgroup.cli.{module}").command
        assert isinstance(command, click.Command)
        assert command.name == name
        assert (command.help or "").splitlines()[0] == text


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(cli: Cli, option: str) -> None:
    result = cli(option)
    assert (result.status, result.err) == (0, "")
    first, *parts = result.out.splitlines()
    assert first == f"kgroup {__version__}"
    assert parts[0] == f"Python {'.'.join(map(str, sys.version_info[:3]))}"
    assert {f"{name} {version(name)}" for name in ("kafka-python", "kazoo", "pyarrow")} < {*parts}


def test_the_version_imports_no_part() -> None:
    assert not {"kafka", "kazoo", "pyarrow", "numba", "numpy", "pyspark"} & loaded_by("--version")


def test_without_a_command_the_help_goes_to_standard_error(cli: Cli) -> None:
    result = cli()
    assert (result.status, result.out) == (2, "")
    assert "Commands:" in result.err


def test_unknown_command_with_a_suggestion(cli: Cli) -> None:
    result = cli("descibe")
    assert (result.status, result.out) == (2, "")
    assert "No such command 'descibe'. Did you mean describe?" in result.err
    assert "Did you mean" not in cli("xyzzy").err


def test_unknown_option(cli: Cli) -> None:
    result = cli("list", "--no-such-option")
    assert (result.status, result.out) == (2, "")
    assert "--no-such-option" in result.err
    assert "try 'kgroup list --help'" in result.err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("list --sample -o", "list"),
        ("zk owners --snapshot", "zk owners"),
        ("plan assignor g --client", "plan assignor"),
        ("plan g -o", "plan"),
    ],
)
def test_an_option_without_its_value(cli: Cli, words: str, command: str) -> None:
    result = cli(*words.split())
    assert (result.status, result.out) == (2, "")
    assert f"Option '{words.split()[-1]}' requires an argument." in result.err
    assert result.err.endswith(f"kgroup: try 'kgroup {command} --help'\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("describe --group g", "describe g"),
        ("coordinator -g g --sample", "coordinator g --sample"),
        ("describe --all-groups", "describe --all"),
        ("list --brokers b", "list --bootstrap-server b"),
        ("list --json", "list -o json"),
        ("list --all-groups -b b", "list -b b"),
        ("reset-offsets g --to-latest", "offsets reset g --to-latest"),
        ("tail -b b", "decode-offsets -b b --follow"),
        ("list --group=g -b b", "describe g -b b"),
        ("history build --log-dir x --to y", "history build --from x --to y"),
        ("history show --to y", "history show --warehouse y"),
        ("--describe", "describe GROUP"),
        ("--bootstrap-server b --list", "list --bootstrap-server b"),
        ("--bootstrap-server b --describe --group g", "describe g --bootstrap-server b"),
        ("-b b offsets show g", "offsets show g -b b"),
        ("offsets -b b show g", "offsets show g -b b"),
        ("offsets -b b --to-earliest reset g", "offsets reset g -b b --to-earliest"),
        ("offsets describe g", "describe g --offsets"),
        ("--delete --group g --group h", "offsets delete g h"),
        ("--delete-offsets --group g --topic t", "offsets delete g --topic t"),
        (
            "--bootstrap-server=b --reset-offsets --group g --topic t:0,1 --to-datetime "
            "2026-11-28T05:02:00.000 --execute",
            "offsets reset g --bootstrap-server=b --topic t:0,1 --to-time 2026-11-28T05:02:00.000 "
            "--execute",
        ),
        (
            "--reset-offsets --all-groups --all-topics --shift-by -10 --dry-run",
            "offsets reset --all --shift-by -10 --dry-run",
        ),
        ("reset g --by-duration PT2H", "offsets reset g --to-time PT2H"),
        ("offsets reset g --from-file plan.csv", "offsets reset g --to-file plan.csv"),
        ("describe g --to-earliest", "offsets reset g --to-earliest"),
        ("assign g --execute --sample", "assign g --sample"),
        ("delete g -b b", "offsets delete g -b b"),
        ("delete --regex x.*", "offsets delete --regex 'x.*'"),
        ("delete -- -g", "offsets delete -- -g"),
        ("export g", "offsets export g -f FILE"),
        ("export g -f o.json", "offsets export g -f o.json"),
        ("copy g", "offsets copy FROM TO --group g"),
        ("copy zookeeper:z kafka:k", "offsets copy zookeeper:z kafka:k --group GROUP"),
        ("storms g", "history storms g"),
        ("owner orders 3 --at 2h", "history owner orders 3 --at 2h"),
        ("version", "--version"),
        ("lag g -X sasl.password=hunter22", "describe g -X sasl.password=[hidden]"),
    ],
)
def test_the_line_that_was_meant(cli: Cli, words: str, line: str) -> None:
    result = cli(*words.split())
    assert (result.status, result.out) == (2, "")
    assert result.err.splitlines()[0].endswith(f". Did you mean: kgroup {line}")


_BLANKS = {"PARTITION": "0", "TIME": "2h"}
_VALUES = {"--to-offset": "3", "--shift-by": "-3", "--to-datetime": "2026-11-28T05:02:00Z"}
_VALUES |= {"--by-duration": "PT2H", "--from-file": "plan.csv"}


@pytest.mark.parametrize("words", [*_COMMANDS, *_ACTIONS])
def test_the_suggested_line_is_complete(cli: Cli, words: str) -> None:
    first = cli(*words.split(), *filter(None, [_VALUES.get(words)])).err.splitlines()[0]
    line = shlex.split(first.partition("Did you mean: kgroup ")[2])
    if line in (["zk"], ["--version"]):
        return
    name, args = split_line([_BLANKS.get(word, word) for word in line])
    EVERY_COMMAND[name].make_context(name, args, context_of(name))  # or it is a usage error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("help", "No such command 'help'. Did you mean kgroup --help?"),
        ("help describe", "Did you mean kgroup describe --help?"),
        ("zk help owners", "Did you mean kgroup zk owners --help?"),
        ("--bootstrap-server b", "Put options after the command: kgroup COMMAND"),
        ("list --topic t:0,1", "expected the name of a topic, found 't:0,1'; use --topic t\n"),
        ("decode-offsets --topic t:0,1", "; use --topic t --partition 0 --partition 1\n"),
        ("list --execute", "'--execute': this command changes no groups and no offsets. Did you"),
        ("offsets show g --dry-run", "'--dry-run': this command changes no groups and no offsets."),
        ("--verion", "No such option '--verion'. Did you mean '--version'?"),
        ("describe -dash", "Put an id that begins with a dash after --: kgroup describe -- -ID"),
        ("list -dash", "No such option '-d'."),
        ("completion", "no shell given: name one of bash, zsh, fish"),
        ("list --state stabel", "'stabel' is not one of 'Empty', 'PreparingRebalance', "),
        ("list --state stabel", "'Stable', 'Dead'; did you mean 'Stable'?"),
        ("list --sample -o jsn", "'grid'; did you mean 'json' or 'jsonl'?"),
        ("list --sample -o JSON", "'grid'; did you mean 'json' or 'jsonl'?"),
        ("check --sample --limit stuk=1h", "time-lag, found 'stuk'; did you mean 'stuck'?"),
        (
            "history report g --sample --to g.html",
            "No such option '--to'. Did you mean: kgroup history report g --sample --html g.html",
        ),
        ("check --sample --bogus", "No such option '--bogus'.\n"),
        (
            "history owner orders 3 --snapshot s.json",
            "are in a log directory, a cluster (-b) or a ",
        ),
        ("history stale --sample", "run: kgroup history build --sample --to warehouse\n"),
        ("history sql -b host", "run: kgroup history build -b HOST:PORT --to warehouse\n"),
        ("doctor --sample", "without one the installation\n"),
        ("offsets reset g --to 3", "'--to-time', '--topic'"),
        ("list --sample --columns kind,grop_id", "no column kind, grop_id; there are: group_id, "),
        ("list --sample --columns grop_id", "max_time_lag_ms; did you mean 'group_id'?"),
        ("describe --sample ledger --columns topc", "next_timestamp_ms; did you mean 'topic'"),
        ("check --sample --rule slowness", "lists them\n"),
        ("check --sample --rule nobodyreads", "lists them; did you mean 'nobody-reads'?"),
        ("decode-offsets --sample --type OffsetComit", "; did you mean 'OffsetCommit' or "),
        ("coordinator g --offsets-partitions many", "'many' is not a whole number."),
        ("list --log-dir=", "expected a path, found an empty string"),
        ("list -b b:1 --timeout nan", "expected a number of seconds greater than 0, found 'nan'"),
        ("list -b b:1 --timeout 1e300", "greater than 0 and at most 1,000,000, found '1e300'"),
        ("list -b b:1 --timeout 1s", "expected a number of seconds greater than 0, found '1s'"),
    ],
)
def test_what_may_have_been_meant(cli: Cli, words: str, message: str) -> None:
    result = cli(*words.split())
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert "\\n" not in result.err


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (KgroupError("it broke"), 1, "kgroup: error: it broke\n"),
        (InputError("no such file"), 1, "kgroup: error: no such file\n"),
        (UsageError("not together"), 2, "kgroup: error: not together\n"),
        (NotFoundError("no group 'x'"), 3, "kgroup: error: no group 'x'\n"),
        (InputError("line\nbreak \x1b[31m"), 1, "kgroup: error: line\\nbreak \\x1b[31m\n"),
        (InputError(r"DOMAIN\user"), 1, "kgroup: error: DOMAIN\\user\n"),
        (click.UsageError("what?"), 2, "kgroup: error: what?\n"),
        (click.ClickException("no"), 1, "kgroup: error: no\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (PermissionError(errno.EACCES, "Permission denied", "f"), 1, "f: Permission denied\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device\n"),
        (MemoryError(), 1, "not enough memory"),
        (
            UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
            2,
            "kgroup: error: expected UTF-8, found 'a\\udcff'\n",
        ),
        (RecursionError("too deep"), 1, "this is a bug in kgroup"),
        (ZeroDivisionError("division by zero"), 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_errors_become_one_line_and_a_status(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, text: str
) -> None:
    def fail(ctx: click.Context) -> None:
        raise error

    monkeypatch.setattr(kgroup.cli.main.kgroup, "invoke", fail)
    result = cli("list", "--sample")
    assert result.status == status
    assert result.out == ""
    assert text in result.err
    assert len(result.err.splitlines()) == (1 if text else 0)


def test_a_traceback_only_where_it_is_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ctx: click.Context) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(kgroup.cli.main.kgroup, "invoke", fail)
    monkeypatch.setenv("KGROUP_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli("list", "--sample")


@pytest.mark.parametrize("args", [["--help"], ["list", "--help"], ["describe", "--help"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    loaded = loaded_by(*args)
    assert "click" in loaded
    heavy = {"numpy", "pyarrow", "numba", "rich", "orjson", "cramjam", "kafka"}
    assert not loaded & heavy


@pytest.mark.slow
def test_decoding_loads_nothing_that_reads_groups() -> None:
    loaded = loaded_by("decode-offsets", "--sample", "--stats")
    assert "kgroup.operation.decode" in loaded
    assert not loaded & {"kgroup.model.group", "kgroup.source.log.source", "rich"}


@pytest.mark.slow
def test_a_list_of_a_cluster_loads_the_connections_of_kafka_python_only() -> None:
    loaded = loaded_by("list", "-b", "127.0.0.1:1", "--timeout", "1")
    assert {"kafka.net.connection", "kafka.protocol.admin.groups"} <= loaded
    unused = {"kafka.producer", "kafka.consumer", "kafka.admin", "kafka.protocol.admin.acl"}
    assert not loaded & {*unused, "rich", "numpy", "pyarrow", "kgroup.source.broker.offsets_log"}


@pytest.mark.slow
def test_what_kafka_python_logs_is_not_shown() -> None:
    done = process("list", "-b", "127.0.0.1:1", "--timeout", "1")
    assert done.stderr == "kgroup: error: 127.0.0.1:1 cannot be reached: Connection refused\n"


@pytest.mark.slow
def test_the_rest_of_kafka_python_is_there_for_others() -> None:
    code = (
        "import kgroup.source.broker.source\n"
        "from kafka import KafkaConsumer, __version__\n"
        "from kafka.protocol.admin import CreateTopicsRequest, ListGroupsRequest\n"
        "import kafka.protocol.admin as admin\n"
        "print(KafkaConsumer.__name__, __version__, admin.DescribeAclsRequest.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["KafkaConsumer", version("kafka-python"), "DescribeAclsRequest"]


def test_what_takes_time_to_import_is_not_without_need() -> None:
    assert not {"kafka", "numpy", "pyarrow"} & loaded_by("describe", "--sample", "--all")


def test_module_and_console_script_are_one() -> None:
    shown = process("--version").stdout
    assert shown.startswith(f"kgroup {__version__}\n")
    script = os.path.join(os.path.dirname(sys.executable), "kgroup")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == shown


def test_an_interrupt_before_anything_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kgroup.cli.main, "run", run)
    with pytest.raises(SystemExit) as ended:
        kgroup.__main__.main()
    assert ended.value.code == 130


def test_a_second_interrupt_does_not_break_off_what_the_first_one_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_s = 100.0
    monkeypatch.setattr(kgroup.cli.main, "monotonic", lambda: at_s)
    press = kgroup.cli.main._Interrupt()
    with pytest.raises(KeyboardInterrupt):
        press(SIGINT, None)
    at_s += 0.3
    press(SIGINT, None)
    at_s += 1.0
    with pytest.raises(KeyboardInterrupt):
        press(SIGINT, None)


@pytest.mark.parametrize(
    "words", ["snapshot --sample --all -f x.json", "offsets export --sample --all -f x.json"]
)
def test_a_current_folder_that_was_deleted(
    cli: Cli, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli(*words.split()).err.endswith("kgroup: error: x.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--help", 1),
        ("describe --help", 1),
        ("check --sample --nagios", 3),
        ("check --sample nobody --nagios", 3),
    ],
)
def test_full_standard_output_is_an_error(words: str, status: int) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kgroup", *words.split()], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == status
    assert b"kgroup: error: standard output: No space left on device\n" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "assign --dry-run {}",
        "assign --dry-run {} --compare",
        "describe {}",
        "check {}",
        "plan {}",
        "plan assignor range {}",
        "plan partitions orders=12 {}",
        "simulate --from {}",
        "members remove --all {}",
        "offsets show {}",
        "offsets reset --to-latest {}",
    ],
)
def test_an_empty_group_id_is_quoted(cli: Cli, words: str) -> None:
    result = cli(*("" if each == "{}" else each for each in words.split()), "--sample")
    assert result.status == 3, result
    assert "group ''" in result.err


def test_every_sentence_that_names_a_group_can_have_an_empty_id() -> None:
    """`named_group` writes the name; a plain `group {group_id}` would end in a blank."""
    plain = re.compile(r"\b[Gg]roup \{[a-z_.]*group(_id)?\}")
    root = Path(kgroup.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        for line in path.read_text().splitlines()
        if plain.search(line)
    ]
    assert found == []
