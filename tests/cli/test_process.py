"""What only a whole process shows: pipes, signals, standard input, a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.columnar.log_writer import batch
from tests.default_signals import default_signals
from tests.examples import some_of
from tests.operation.log_files import Log, commit, end, transaction
from tests.waiting import until_asleep

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "kgroup"]
SAMPLE = Path(__file__).parents[2] / "kgroup/sample/log-dir"
TIMEOUT_S = 60
SMALL = 4096


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """Records enough to fill a pipe of `SMALL` bytes."""
    return Log(tmp_path).add(0, batch([commit(n, f"group-{n}") for n in range(500)]))


@pytest.mark.parametrize(
    ("form", "unbuffered"),
    some_of([("table", ""), ("jsonl", ""), ("jsonl", "1"), ("json", ""), ("csv", "")], 2),
)
def test_a_closed_pipe_ends_quietly(long_log: Path, form: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, SMALL)
    process = subprocess.Popen(
        [*COMMAND, "decode-offsets", long_log, "-o", form],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writer)
    with open(reader, "rb") as lines:
        assert lines.readline()
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert errors == b""
    assert process.returncode == 141


def test_pandas_is_not_imported_where_it_is_installed(tmp_path: Path) -> None:
    # pyarrow does so by itself, and it takes longer than all else
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was imported')\n")
    done = subprocess.run(
        [*COMMAND, "decode-offsets", "--sample", "--parquet", str(tmp_path / "rows.parquet")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])},
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "decode-offsets", "--sample", "-o", "jsonl"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 1
    assert done.stderr == b"kgroup: error: standard output: No space left on device\n"


def test_no_room_for_a_parquet_file_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    file.write_bytes(b"old")
    done = subprocess.run(
        [*COMMAND, "decode-offsets", "--sample", "--parquet", str(file), "--force"],
        capture_output=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL)),
    )
    told = f"kgroup: error: {file}: File too large\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", told)
    assert [(path, path.read_bytes()) for path in tmp_path.iterdir()] == [(file, b"old")]


def test_no_room_for_a_copy_of_standard_input_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "decode-offsets", "-"],
        input=bytes(2 << 20),
        capture_output=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    told = f"kgroup: error: a copy of standard input in {tmp_path} (TMPDIR): File too large\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("closed", "args", "status", "shown"),
    [
        (">&-", "list --sample", 1, ""),
        (">&-", "offsets export --sample --all -f -", 1, ""),
        (">&-", "--help", 1, ""),
        ("2>&-", "list --no-such-option", 2, ""),
        ("<&-", "decode-offsets - -o jsonl", 0, ""),
        ("<&-", "coordinator g -o tsv --columns group_id", 0, "group_id\ng\n"),
        (">&- 2>&- <&-", "decode-offsets --sample", 1, ""),
    ],
)
def test_closed_standard_streams(closed: str, args: str, status: int, shown: str) -> None:
    """What is written to a closed standard output is lost, an error as of `ls >&-` of coreutils."""
    shell = f"'{sys.executable}' -m kgroup {args} {closed}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout) == (status, shown)
    assert ("standard output: Bad file descriptor" in done.stderr) == (closed == ">&-")
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


@contextmanager
def waiting(
    folder: Path, start: Callable[[], object] = default_signals
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for the rest of its standard input, with a folder for files."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [*COMMAND, "decode-offsets", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=start,
    )
    assert process.stdin is not None
    process.stdin.write(b"\0" * 100)
    process.stdin.flush()
    deadline = time.monotonic() + TIMEOUT_S
    while not list(folder.glob("kgroup-*/stdin")):
        assert process.poll() is None, process.stderr.read() if process.stderr else b""
        assert time.monotonic() < deadline
        time.sleep(0.02)
    until_asleep(process.pid)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_end_it_quietly_and_leave_no_file(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with waiting(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == status
        assert process.stderr is not None
        assert process.stdout is not None
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ignored_signals_stay_ignored(tmp_path: Path, number: signal.Signals) -> None:
    """As SIGINT is in what a shell runs in the background: the input is read to its end."""
    with waiting(tmp_path, partial(signal.signal, number, signal.SIG_IGN)) as process:
        process.send_signal(number)
        out, err = process.communicate(batch([commit(0, "late")]), TIMEOUT_S)
    assert process.returncode == 4
    assert b"late" in out
    assert b"100 zero bytes" in err
    assert list(tmp_path.iterdir()) == []


def test_threads_that_are_still_at_work_do_not_outlast_it() -> None:
    """A look-up of a name that was given up, say: the output is whole, and nobody waits for it."""
    program = (
        "import threading, time; from kgroup.cli.main import run; "
        "threading.Thread(target=time.sleep, args=[600]).start(); "
        "run(['list', '--sample', '-o', 'tsv', '--columns', 'group_id'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert {b"group_id", b"order-service"} <= set(done.stdout.splitlines())


def test_standard_input_with_transactions_that_end_later(tmp_path: Path) -> None:
    data = transaction([commit(0, "g")], 7) + batch([commit(1, "g")]) + end(2, 7, commits=True)
    done = subprocess.run(
        [*COMMAND, "decode-offsets", "-", "-o", "jsonl"],
        input=data,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["partition"], row["offset"], row["transaction"]) for row in rows] == [
        (None, 0, "committed"),
        (None, 1, None),
        (None, 2, "committed"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_standard_input_gives_what_the_file_gives(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SAMPLE / "__consumer_offsets-6/00000000000000000000.log"
    command = ["decode-offsets", "-o", "jsonl"]
    with file.open() as data:
        monkeypatch.setattr(sys, "stdin", data)
        piped = cli(*command, "-")
    read = cli(*command, file)
    assert piped.out == read.out.replace('"partition":6,"offset"', '"partition":null,"offset"')
    assert piped.status == read.status == 0
    assert piped.out.count("\n") > 10


def test_damage_in_standard_input_has_a_place_without_the_name_of_a_temporary_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = batch([commit(0, "g")])
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(data + b"\xff" * 70)))
    done = cli("decode-offsets", "-", "-o", "json")
    assert done.status == 4
    (error,) = json.loads(done.out)["errors"]
    assert (error["path"], error["position"]) == ("-", len(data))
    assert done.err.startswith(f"kgroup: -, byte {len(data)}: ")


def on_terminal(*args: str, columns: int, typed: bytes = b"", **environment: str) -> str:
    """Run on a terminal so many characters wide; give what it wrote, without any progress."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *args],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment},
    )
    os.close(child)
    os.write(parent, typed)
    parts = []
    while True:
        try:
            part = os.read(parent, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(parent)
    process.wait(TIMEOUT_S)
    text = re.sub(r"\r\x1b\[K(?:[^\r\n]*\r\x1b\[K)*", "", b"".join(parts).decode())
    return text.replace("\r\n", "\n")


def test_a_terminal_gets_a_coloured_table_that_fits() -> None:
    text = on_terminal("list", "--sample", columns=110)
    assert "\x1b[1m" in text
    assert "\x1b[32mStable" in text
    lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", text).splitlines()
    assert max(map(len, lines)) <= 110
    assert any(line.startswith("order-service") for line in lines)


def test_no_colour_where_none_is_wanted() -> None:
    text = on_terminal("list", "--sample", columns=100, NO_COLOR="1")
    assert "Stable" in text
    assert "\x1b[32m" not in text


@pytest.mark.parametrize("term", ["", "dumb"])
def test_no_style_on_a_terminal_that_has_none(term: str) -> None:
    """As terminfo(5) has it: "dumb" can do nothing, and where TERM is not set nothing is known."""
    text = on_terminal("list", "--sample", columns=100, TERM=term)
    assert "Stable" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("decode-offsets -", "a segment"),
        ("list --snapshot -", "a snapshot"),
        ("offsets import --sample -", "a file of offsets"),
    ],
)
def test_standard_input_must_not_be_a_terminal(line: str, what: str) -> None:
    text = on_terminal(*line.split(), columns=80)
    assert f"standard input is a terminal; pipe or redirect {what} into it" in text


@pytest.mark.parametrize("line", ["simulate -", "assign --dry-run --spec -"])
def test_what_is_to_be_typed_is_asked_for(line: str) -> None:
    """4, end of transmission, ends what is typed, as termios(3) has it (VEOF)."""
    text = on_terminal(*line.split(), columns=80, typed=b"x\n\x04")
    assert "kgroup: note: reading standard input from the terminal; end it with Ctrl-D\n" in text
    assert "kgroup: " in text.partition("Ctrl-D")[2]


def test_an_id_is_utf8_whatever_the_locale() -> None:
    """The partition is that of Java's hash code of the text: 47 of 50."""
    command = [*COMMAND, "coordinator", "日本", "--offsets-partitions", "50", "-o", "csv"]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, env=os.environ | plain)
    assert done.stdout.decode().splitlines()[1].startswith("日本,47,50,")
