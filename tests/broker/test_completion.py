"""Completion in real bash, zsh and fish, with the groups of a live broker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgroup.cli.main import COMMANDS
from tests.broker.proxy import RecordingProxy, why_not_harmless
from tests.broker.servers import broker
from tests.broker.shell import SHELLS, Shell, shell
from tests.record.raw import await_coordinator, commit, create_topics
from tests.record.wire import Wire

ROOT = Path(__file__).parents[2]
VERSION = "4.3.1"
LIST_GROUPS = 16

GROUPS: Mapping[str, str] = {
    "q01": "plain-name_1.x",
    "q02": " with  spaces ",
    "q03": ":colon:and:more",
    "q04": "it's",
    "q05": ' say "hi"',
    "q06": "-ünï-注文-👍",
    "q07": " costs $HOME `date` $(date)",
    "q08": "back\\slash",
    "q09": "*?[a]{b,c}",
    "q10": ";a&b|c<d>e(f)g",
    "q11": "=key=value",
    "q12": "#~!^",
    "q13": "a,b",
}
"""Beginning of each group's id, by which it is asked for, and the rest."""


@dataclass(frozen=True)
class Asked:
    """A broker behind a proxy."""

    proxy: RecordingProxy

    @property
    def options(self) -> str:
        return f"-b {self.proxy.bootstrap}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with broker(VERSION, tmp_path_factory.mktemp("completion")) as server:
        with Wire(VERSION, server.bootstrap) as wire:
            create_topics(wire, {"orders": 1})
            await_coordinator(wire)
            for begin, rest in GROUPS.items():
                commit(wire, begin + rest, {("orders", 0): 0})
            commit(wire, "-dash", {("orders", 0): 0})
        with RecordingProxy([server.port]) as proxy:
            yield Asked(proxy)


def environment(work: Path, **more: str) -> dict[str, str]:
    """Put a program named kgroup on the path; be patient with a machine that is busy."""
    program = work / "bin" / "kgroup"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kgroup "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KGROUP_COMPLETION_TIMEOUT": "60",
        **more,
    }


@pytest.fixture(scope="module", params=SHELLS)
def keys(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    name: str = request.param
    work = tmp_path_factory.mktemp(name)
    with shell(name, ROOT / "completions" / SHELLS[name][2], work, environment(work)) as opened:
        (work / "log dir").mkdir()
        (work / "settings.properties").touch()
        yield opened


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("kgroup desc", "describe"),
        ("kgroup describe --members --iso", "--isolation"),
        ("kgroup describe --isolation read-c", "read-committed"),
        ("kgroup describe --isolation=read-c", "--isolation=read-committed"),
        ("kgroup list --state st", "Stable"),
        ("kgroup list --type sh", "share"),
        ("kgroup list -o mark", "markdown"),
        ("kgroup list --columns group_id,mem", "group_id,member_count"),
        ("kgroup decode-offsets --type OffsetCommit,GroupM", "OffsetCommit,GroupMetadata"),
        ("kgroup list --command-config sett", "settings.properties"),
        ("kgroup list --command-config=sett", "--command-config=settings.properties"),
        ("kgroup describe --sample order-s", "order-service"),
        ("kgroup decode-offsets --sample --group order-s", "order-service"),
        ("kgroup completion z", "zsh"),
    ],
)
def test_words(keys: Shell, line: str, word: str) -> None:
    *before, _ = line.split()
    assert keys.tab(line) == [*before, word]


def test_a_folder_with_a_space(keys: Shell) -> None:
    program, name, option, path = keys.tab("kgroup list --log-dir lo")
    assert (program, name, option, path.rstrip("/")) == ("kgroup", "list", "--log-dir", "log dir")


@pytest.mark.parametrize("begin", GROUPS)
def test_groups_of_a_cluster(keys: Shell, asked: Asked, begin: str) -> None:
    before = ["kgroup", "describe", *asked.options.split()]
    assert keys.tab(f"kgroup describe {asked.options} {begin}") == [*before, begin + GROUPS[begin]]


@pytest.mark.parametrize(
    ("typed", "begin"),
    [
        ('"q01pl', "q01"),
        ("'q01pl", "q01"),
        ('"q02 wi', "q02"),
        ("'q02 wi", "q02"),
        ("q02\\ wi", "q02"),
        ("q03:colon:a", "q03"),
        ('"q03:colon:a', "q03"),
        ("\"q04it'", "q04"),
        ("'q05 say \"h", "q05"),
        ("q06-ünï-注", "q06"),
        ("q08back\\\\sl", "q08"),
        ("q11=key=v", "q11"),
    ],
)
def test_groups_that_were_begun_in_quotes(
    keys: Shell, asked: Asked, typed: str, begin: str
) -> None:
    *_, word = keys.tab(f"kgroup describe {asked.options} {typed}")
    assert word == begin + GROUPS[begin]


def test_no_group_twice_and_none_that_looks_like_an_option(keys: Shell, asked: Asked) -> None:
    line = f"kgroup describe {asked.options} q01plain-name_1.x q01"
    assert keys.tab(line) == line.split()
    line = f"kgroup describe {asked.options} -d"
    assert keys.tab(line) == line.split()


def test_only_lists_are_asked_for(keys: Shell, asked: Asked) -> None:
    before = len(asked.proxy.requests)
    keys.tab(f"kgroup describe {asked.options} q0")
    sent = asked.proxy.requests[before:]
    assert LIST_GROUPS in {request.api_key for request in sent}
    assert [flaw for request in sent if (flaw := why_not_harmless(request, VERSION))] == []


@pytest.mark.parametrize("name", SHELLS)
def test_a_cluster_of_the_environment_or_of_a_profile(
    name: str, asked: Asked, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.nightly]\nbootstrap-server = "{asked.proxy.bootstrap}"\n')
    more = {"KGROUP_CONFIG": str(config), "KGROUP_BOOTSTRAP_SERVER": asked.proxy.bootstrap}
    script = ROOT / "completions" / SHELLS[name][2]
    with shell(name, script, tmp_path / "shell", environment(tmp_path, **more)) as keys:
        assert keys.tab("kgroup describe q01") == ["kgroup", "describe", "q01plain-name_1.x"]
        assert keys.tab("kgroup describe -C night") == ["kgroup", "describe", "-C", "nightly"]
        line = "kgroup describe -C nightly q01"
        assert keys.tab(line) == [*line.split()[:-1], "q01plain-name_1.x"]


def test_topics_of_a_cluster(keys: Shell, asked: Asked) -> None:
    for line in (
        f"kgroup list {asked.options} --topic ord",
        f"kgroup decode-offsets {asked.options} --topic=ord",
        f"kgroup assign q01plain-name_1.x {asked.options} --drop-topic ord",
    ):
        *before, word = line.split()
        assert keys.tab(line) == [*before, word.replace("ord", "orders")]
    sent_before = len(asked.proxy.requests)
    keys.tab(f"kgroup list {asked.options} --topic ord")
    sent = asked.proxy.requests[sent_before:]
    assert LIST_GROUPS not in {request.api_key for request in sent}
    assert [flaw for request in sent if (flaw := why_not_harmless(request, VERSION))] == []


INSTALLED: Mapping[str, tuple[str, list[str], str]] = {
    "bash": (".bashrc", ["bash", "-ic", "complete -p kgroup"], "complete -F _kgroup kgroup"),
    "zsh": (".zshrc", ["zsh", "-ic", "print -r -- $_comps[kgroup]"], "_kgroup"),
    "fish": (
        ".config/fish/completions/kgroup.fish",
        ["fish", "-c", "complete -C 'kgroup desc'"],
        f"describe\t{COMMANDS['describe'][1]}",
    ),
}
"""What is written below the home folder, and how a new shell shows that it knows it."""


@pytest.mark.parametrize("name", SHELLS)
def test_install(name: str, tmp_path: Path) -> None:
    """Shells that start as they always do, with nothing but that file in the user's folder."""
    file, command, shown = INSTALLED[name]
    env = environment(tmp_path, HOME=str(tmp_path), SHELL=f"/bin/{name}", TERM="dumb")
    for _ in range(2):
        subprocess.run(["kgroup", "completion", "--install"], env=env, check=True)
    text = (tmp_path / file).read_text()
    assert text.count("kgroup completion") == 1 or name == "fish"
    new = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert new.stdout.splitlines() == [shown]
    with shell(name, tmp_path / file, tmp_path / "shell", env) as keys:
        assert keys.tab("kgroup list --typ") == ["kgroup", "list", "--type"]


@pytest.mark.parametrize("name", SHELLS)
def test_quiet_where_nobody_answers(name: str, tmp_path: Path) -> None:
    """An address that swallows every packet, and one where nobody listens."""
    env = environment(tmp_path, KGROUP_COMPLETION_TIMEOUT="0.1")
    script = ROOT / "completions" / SHELLS[name][2]
    with shell(name, script, tmp_path / "shell", env) as keys:
        for address in ("192.0.2.1:9092", "127.0.0.1:1", "no-such-host.invalid"):
            line = f"kgroup describe -b {address} q0"
            assert keys.tab(line) == line.split()
        time.sleep(0.2)
        keys.read()
    for word in (b"error", b"Traceback", b"refused", b"note:"):
        assert word not in keys.said
