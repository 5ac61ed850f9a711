"""What `kgroup completion` tells the shells; the shells themselves are in tests/broker."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from kgroup.cli.command.completion import SHELLS, read_bash, read_fish_word, script
from kgroup.cli.main import COMMANDS
from kgroup.cli.option import suggestion
from kgroup.model.group import Group, GroupState
from kgroup.render.group import LIST_COLUMNS, STATE_COLUMNS
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND
from tests.cli.loaded import loaded_by
from tests.cli.suggested import BREAKS, suggested
from tests.examples import some_of
from tests.history.recorded import Built

FILES = {"bash": "kgroup.bash", "zsh": "_kgroup", "fish": "kgroup.fish"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_COMPLETION_TIMEOUT", "60")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_in_the_repository_are_those_that_are_printed(cli: Cli, shell: str) -> None:
    file = Path(__file__).parents[2] / "completions" / FILES[shell]
    command = f"kgroup completion {shell} > completions/{FILES[shell]}"
    assert cli("completion", shell).out == file.read_text("utf-8"), f"run: {command}"


def groups_by_id() -> Mapping[str, Group]:
    return LogDir([sample_log_dir()]).read().image.groups


def groups() -> Collection[str]:
    return groups_by_id()


def test_commands(cli: Cli) -> None:
    assert suggested(cli, "kgroup ") == ("plain", list(COMMANDS))
    assert suggested(cli, "kgroup wh") == ("plain", ["why"])
    assert suggested(cli, "kgroup why --rul")[1] == ["--rule", "--rules"]
    assert suggested(cli, "kgroup why --sample led") == ("plain", ["ledger"])
    assert suggested(cli, "kgroup de") == ("plain", ["describe", "decode-offsets"])
    assert suggested(cli, "kgroup --v") == ("plain", ["--version"])
    assert suggested(cli, "kgroup nonsense ")[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_groups(cli: Cli, shell: str) -> None:
    assert suggested(cli, "kgroup describe --sample ", shell) == ("plain", sorted(groups()))
    line = f"kgroup decode-offsets --log-dir {sample_log_dir()} --group order-"
    assert suggested(cli, line, shell)[1] == ["order-service", "order-totals"]
    line = "kgroup describe --sample order-totals order-"
    assert suggested(cli, line, shell)[1] == ["order-service"]


def test_groups_of_a_folder_that_the_shell_has_not_expanded(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(sample_log_dir().parent))
    for folder in ("~/log-dir", "$HOME/log-dir"):
        assert suggested(cli, f"kgroup describe --log-dir '{folder}' ship")[1] == ["shipping"]


def test_names_of_values(cli: Cli) -> None:
    assert suggested(cli, "kgroup list --state ")[1] == [state.value for state in GroupState]
    assert suggested(cli, "kgroup list --state=e")[1] == ["--state=Empty"]
    names = [column.name for column in LIST_COLUMNS]
    assert suggested(cli, "kgroup list --columns ") == ("part", names)
    rest = [f"type,{name}" for name in names if name != "type"]
    assert suggested(cli, "kgroup list --columns type,") == ("part", rest)
    _, columns = suggested(cli, "kgroup describe --state --columns ")
    assert columns == [column.name for column in STATE_COLUMNS]
    assert suggested(cli, "kgroup decode-offsets --type Offset") == ("part", ["OffsetCommit"])
    assert suggested(cli, "kgroup list --log-dir ") == ("file", [])


def test_members_and_strategies(cli: Cli) -> None:
    ids = [member.member_id for member in groups_by_id()["order-service"].members]
    line = "kgroup assign order-service --sample --remove-member "
    assert suggested(cli, line)[1] == ids
    line = "kgroup assign --sample order-service --dry-run --restart-member=order-service-2"
    assert suggested(cli, line)[1] == [f"--restart-member={ids[1]}"]
    assert suggested(cli, "kgroup assign --sample --remove-member ")[1] == []
    line = "kgroup members remove --sample order-service --member "
    assert suggested(cli, line)[1] == ids, "the command has two words"
    assert suggested(cli, "kgroup assign g --strategy s")[1] == ["sticky", "simple", "sessioned"]
    _, columns = suggested(cli, "kgroup assign g --sample --columns ")
    assert columns[:3] == ["id", "rebalance", "topic"]


def test_topics(cli: Cli) -> None:
    """Those that the groups of the sample have to do with, by its own description of itself."""
    everything = {topic for group in groups_by_id().values() for topic in group.topics}
    names = sorted(topic for topic in everything if not topic.startswith("__"))
    assert suggested(cli, "kgroup list --sample --topic ") == ("plain", names)
    assert {"orders", "payments"} <= set(names)
    line = "kgroup decode-offsets --sample --topic payments --topic "
    assert suggested(cli, line)[1] == [name for name in names if name != "payments"]
    line = "kgroup assign order-service --sample --dry-run"
    assert suggested(cli, f"{line} --drop-topic ord") == ("plain", ["orders"])
    assert suggested(cli, f"{line} --partitions ord") == ("part", ["orders="])
    assert suggested(cli, f"{line} --partitions=ord") == ("part", ["--partitions=orders="])
    assert suggested(cli, "kgroup assign --sample --drop-topic ")[1] == []


@pytest.mark.parametrize(
    ("shell", "variable", "file"),
    [
        ("bash", "HOME", ".bashrc"),
        ("zsh", "HOME", ".zshrc"),
        ("zsh", "ZDOTDIR", ".zshrc"),
        ("fish", "HOME", ".config/fish/completions/kgroup.fish"),
        ("fish", "XDG_CONFIG_HOME", "fish/completions/kgroup.fish"),
    ],
)
def test_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: str, variable: str, file: str
) -> None:
    for name in ("HOME", "ZDOTDIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    path = tmp_path / "own" / file
    if variable == "HOME":
        (tmp_path / "own").mkdir()
    if shell != "fish":
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            "# source <(kgroup completion bash)\n# kgroup completion zsh\nalias k=kgroup"
        )
    before = path.read_text() if path.exists() else ""
    first = cli("completion", "--install")
    assert (first.status, first.out) == (0, "")
    assert str(path) in first.err
    text = path.read_text()
    assert text == script("fish") if shell == "fish" else text.startswith(f"{before}\n")
    again = cli("completion", "--install", shell)
    assert again.err == f"kgroup: completion is already installed in {path}; nothing was changed\n"
    assert path.read_text() == text


def test_install_where_it_is_not_clear_how(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/ksh")
    result = cli("completion", "--install")
    assert (result.status, list(tmp_path.iterdir())) == (2, [])
    assert "no shell given: name one of bash, zsh, fish; $SHELL is ksh" in result.err
    assert cli("completion").status == 2
    theirs = tmp_path / "fish" / "completions" / "kgroup.fish"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("complete -c kgroup -a mine\n")
    result = cli("completion", "--install", "fish")
    assert (result.status, theirs.read_text()) == (1, "complete -c kgroup -a mine\n")
    assert str(theirs) in result.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_install_without_a_home_folder(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: str
) -> None:
    for name in ("ZDOTDIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home := tmp_path / "none"))
    result = cli("completion", "--install", shell)
    text = f"kgroup: error: {home}: expected your home folder ($HOME), found none\n"
    assert (result.status, result.err, home.exists()) == (1, text, False)


@pytest.mark.parametrize("line", ["bash x", "bash x y z", "--install fish x"])
def test_words_that_no_shell_hands_over(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = cli("completion", *line.split())
    assert (result.status, result.out, list(tmp_path.iterdir())) == (2, "", [])
    assert "unexpected extra argument (x)" in result.err


def test_install_on_a_disk_that_gets_full(tmp_path: Path) -> None:
    """A shell must not find half a line in its file."""
    file = tmp_path / ".bashrc"
    file.write_text("x" * 1000)

    def allow_ten_bytes_more() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1010, 1010))

    result = subprocess.run(
        [sys.executable, "-m", "kgroup", "completion", "bash", "--install"],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=allow_ten_bytes_more,
    )
    assert (result.returncode, result.stderr) == (1, f"kgroup: error: {file}: File too large\n")
    assert file.read_text() == "x" * 1000


def test_every_command_suggests_groups_where_it_takes_them() -> None:
    taken = set()
    for name, command in EVERY_COMMAND.items():
        for param in command.params:
            if param.name in ("group", "groups", "group_id", "group_ids", "names"):
                assert param._custom_shell_complete is suggestion.suggest_groups, (name, param)
                taken.add(name)
    assert {"describe", "coordinator", "snapshot", "decode-offsets", "zk fetchers"} <= taken


@pytest.mark.slow
def test_groups_of_a_warehouse(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded_warehouse: Built
) -> None:
    warehouse = recorded_warehouse(sample_log_dir())
    line = f"kgroup history timeline --warehouse {warehouse} "
    gone = "old-dashboard"  # whose offsets were deleted
    assert suggested(cli, line) == ("plain", sorted({*groups(), gone}))
    assert suggested(cli, f"{line}order-")[1] == ["order-service", "order-totals"]
    assert suggested(cli, f"kgroup history as-of --warehouse {tmp_path} now ")[1] == []
    monkeypatch.setenv("KGROUP_WAREHOUSE", str(warehouse))
    assert suggested(cli, "kgroup history commits order-t")[1] == ["order-totals"]


QUESTIONS = [
    "show",
    "show --partitions",
    "show --groups",
    "owner orders 0 --at now",
    "timeline order-service",
    "commits order-service",
    "commits order-service --pauses",
    "commits order-service --jumps",
    "stale",
    "lag order-service",
    "rebalances",
    "storms",
    "as-of now order-service",
    "as-of now order-service --members",
]


@pytest.mark.slow
@pytest.mark.parametrize("line", some_of(QUESTIONS, 2))
def test_columns_of_history_are_those_that_are_written(
    cli: Cli, recorded_warehouse: Built, line: str
) -> None:
    asked = f"history {line} --warehouse {recorded_warehouse(sample_log_dir())}"
    head, *_ = cli(*asked.split(), "-o", "csv").out.splitlines()
    assert suggested(cli, f"kgroup {asked} --columns ") == ("part", head.split(","))


@pytest.mark.slow
def test_columns_of_commands_that_need_no_warehouse(cli: Cli, tmp_path: Path) -> None:
    built = cli("history", "build", "--sample", "--to", str(tmp_path / "w"), "-o", "csv").out
    line = f"kgroup history build --to {tmp_path}/w --columns "
    assert suggested(cli, line)[1] == built.splitlines()[0].split(",")
    found = cli("check", "--sample", "-o", "csv").out
    assert suggested(cli, "kgroup check --columns ")[1] == found.splitlines()[0].split(",")
    assert suggested(cli, "kgroup history sql --columns ")[1] == []


def test_profiles(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGROUP_CONFIG", str(tmp_path / "config.toml"))
    assert suggested(cli, "kgroup list -C ")[1] == []
    (tmp_path / "config.toml").write_text("[profiles.test]\n[profiles.prod]\n")
    assert suggested(cli, "kgroup list -C ")[1] == ["prod", "test"]


@pytest.mark.parametrize(
    "line",
    [
        "kgroup describe ",
        "kgroup describe -b 127.0.0.1:1 ",
        "kgroup describe -b ::: ",
        "kgroup describe -C none ",
        "kgroup describe -X oops ",
        "kgroup describe --log-dir /nowhere ",
        "kgroup describe --sample --log-dir /nowhere ",
        "kgroup describe --no-such-option --sample -",
    ],
)
def test_quiet_where_there_is_nothing_to_suggest(cli: Cli, line: str) -> None:
    _, words = suggested(cli, line)
    assert [word for word in words if not word.startswith("-")] == []


def test_what_takes_long_is_given_up() -> None:
    def ask() -> list[str]:
        time.sleep(60)
        return ["late"]

    assert list(suggestion._within(0.01, ask)) == []


def test_no_connection_is_loaded_for_words_that_need_none() -> None:
    loaded = loaded_by("completion", "bash", "--", "kgroup list --state ", BREAKS)
    assert not {"kafka", "numpy", "pyarrow", "rich", "orjson"} & loaded


@pytest.mark.parametrize(
    ("line", "words", "current", "kept"),
    [
        ("kgroup ", ["kgroup"], "", ""),
        ("kgroup  de", ["kgroup"], "de", ""),
        ("k 'a b' c", ["k", "a b"], "c", ""),
        ("k '' \"\" x", ["k", "", ""], "x", ""),
        (r"k a\ b", ["k"], "a b", ""),
        (r"k a\:b:c", ["k"], "a:b:c", "a:b:"),
        ("k --x=y", ["k"], "--x=y", "--x="),
        ("k 'a:b", ["k"], "a:b", ""),
        ("k x'a:b", ["k"], "xa:b", "x"),
        ("k 'a:b'c", ["k"], "a:bc", ""),
        ("k a:'b c'd", ["k"], "a:b cd", "a:"),
        (r'k "a\"b\n', ["k"], r'a"b\n', ""),
        ("k a\\", ["k"], "a", ""),
    ],
)
def test_lines_of_bash(line: str, words: list[str], current: str, kept: str) -> None:
    read = read_bash(line, BREAKS)
    assert (list(read.words), read.current, read.kept) == (words, current, kept)


@pytest.mark.parametrize("begin", ["", "'", '"', "x:", "x:'", "x\\ "])
@pytest.mark.parametrize("rest", ["a b", "it's", 'say "hi"', "$HOME `x`", "a\\b", "a:b=c", "注文"])
def test_what_bash_types_is_the_word_that_was_meant(begin: str, rest: str) -> None:
    line = read_bash(f"k {begin}", BREAKS)
    word = line.current + rest
    typed = f"k {begin[: len(begin) if line.quote or begin.endswith(':') else 0]}"
    completed = f"printf '%s\\n' {typed}{line.replacement(word)}{line.quote}"
    done = subprocess.run(["sh", "-c", completed], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["k", word]
    assert line.replacement("other") is None or not line.kept


@pytest.mark.parametrize(
    ("typed", "word"),
    [("a\\ b", "a b"), ("'a\\'b", "a'b"), ("'a\\nb", "a\\nb"), ('"a\\$b', "a$b"), ("\"a'b", "a'b")],
)
def test_words_of_fish(typed: str, word: str) -> None:
    assert read_fish_word(typed) == word
