"""Every option that names a file to write: what it replaces, and who may read what it writes.

The options are found in the tree of commands: a new one fails here until it has a case.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from kgroup.cli.option.common import AnyPath, InputFolder, InputPath, OutputFolder, OutputPath
from kgroup.cli.option.execution import execution_options
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND

ROOT = Path(__file__).parents[2]
GROUP = "order-service"


@dataclass(frozen=True)
class Output:
    """A command that writes a file, which it replaces where kgroup wrote it.

    Attributes:
        source: what it reads.
        line: the rest of its words, without the option that names the file.
    """

    source: Sequence[str]
    line: Sequence[str]


REPLACING = {
    ("decode-offsets", "--parquet"): Output(["--sample"], ["--group", GROUP]),
    ("snapshot", "--file"): Output(["--sample"], [GROUP]),
    ("offsets export", "--to"): Output(["--sample"], [GROUP, "--format", "json"]),
    ("history build", "--metrics"): Output(["--sample"], ["--to", "FOLDER"]),
    ("history report", "--html"): Output(["--warehouse", "WAREHOUSE"], [GROUP]),
}
"""By command and option."""

NEW = {
    (command, "--backup"): line
    for command, line in {
        "plan apply": [],
        "offsets import": ["before.json", GROUP, "--sql", "o.db"],
        "offsets copy": ["sample", "sql:o.db", "--group", GROUP],
        "offsets reset": [GROUP, "--sql", "o.db", "--shift-by", "-1"],
        "offsets delete": [GROUP, "--sql", "o.db"],
    }.items()
}
"""What is always a new file; `plan apply` copies what a plan says, with the same `Execution`."""

FOLDERS = {("history build", "--to"), ("history stream", "--to")}

QUESTIONS = ("owner", "timeline", "commits", "lag", "rebalances", "storms", "report", "as-of")
"""What reads records of a source or a warehouse."""

TEXTS = {
    ("history build", "--from"),
    ("history build", "more"),
    ("offsets diff", "first"),
    ("offsets diff", "second"),
    ("offsets copy", "first"),
    ("offsets copy", "second"),
    ("simulate", "scenario"),
    *((f"history {word}", "--from") for word in QUESTIONS),
    *(
        (command, "--sql")
        for command in (
            *(f"offsets {word}" for word in ("show", "export", "import", "reset", "delete")),
            *(f"plan {word}" for word in ("external-offsets", "apply", "verify")),
        )
    ),
}
"""What may be a path among other things; all of it is read, but the SQLite file of `--sql` that
`--execute` changes, and makes with `--create-table`: see the tests of it."""


def parameters() -> Iterator[tuple[str, str, click.Parameter]]:
    for name, command in EVERY_COMMAND.items():
        for param in command.params:
            yield name, max(param.opts, key=len), param


def test_every_option_that_writes_has_a_case() -> None:
    files, folders = set(), set()
    for name, option, param in parameters():
        if isinstance(param.type, OutputPath):
            files.add((name, option))
        elif isinstance(param.type, OutputFolder):
            folders.add((name, option))
        elif isinstance(param.type, click.Path | click.File):
            assert isinstance(param.type, InputPath | InputFolder), (name, option)
            assert isinstance(param.type, AnyPath)
        elif (param.metavar or "").strip("[].") in ("FILE", "PATH", "DIR", "FOLDER", "STORE"):
            assert (name, option) in TEXTS or name == "zk tree", (name, option)
    assert files == REPLACING.keys() | NEW.keys()
    assert folders == FOLDERS
    for name, _ in REPLACING:
        assert any("--force" in param.opts for param in EVERY_COMMAND[name].params)


def test_all_backups_are_made_by_one_option() -> None:
    @execution_options()
    def command() -> None: ...

    (own,) = (param for param in command.__click_params__ if "--backup" in param.opts)  # type: ignore[attr-defined]
    of_commands = {
        (name, param.type, param.callback)
        for name, option, param in parameters()
        if option == "--backup"
    }
    assert of_commands == {(name, own.type, own.callback) for name, _ in NEW}


@pytest.fixture
def run(
    cli: Cli, recorded_warehouse: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Cli:
    """Runs a command line with the warehouse of the sample, or a folder for a new one."""
    folder = tmp_path_factory.mktemp("new")

    def in_warehouse(*words: object) -> object:
        root = recorded_warehouse(sample_log_dir()) if "WAREHOUSE" in words else None
        places: dict[object, object] = {"WAREHOUSE": root, "FOLDER": folder / "w"}
        return cli(*(places.get(word, word) for word in words))

    return in_warehouse  # type: ignore[return-value]


replacing = pytest.mark.parametrize(("command", "option"), REPLACING)


def words(command: str, option: str, path: object) -> list[object]:
    case = REPLACING[command, option]
    return [*command.split(), *case.source, *case.line, option, path]


@replacing
def test_a_file_of_somebody_else_is_replaced_only_by_force(
    run: Cli, tmp_path: Path, command: str, option: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"my notes")
    line = words(command, option, path)
    refused = run(*line)
    assert refused.status == 1, refused.err
    assert f"{path}: expected no file, or a" in refused.err
    assert "--force" in refused.err
    assert path.read_bytes() == b"my notes"
    assert run(*line, "--force").status == 0
    first = path.read_bytes()
    assert first != b"my notes"
    path.chmod(0o640)
    assert run(*line).status == 0  # tomorrow's takes the place of today's
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    for other in REPLACING.keys() - {(command, option)}:
        assert run(*words(*other, path)).status == 1


@replacing
def test_new_files_are_their_owners_alone(
    run: Cli, tmp_path: Path, command: str, option: str
) -> None:
    before = os.umask(0)
    try:
        assert run(*words(command, option, tmp_path / "file")).status == 0
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


INPUTS = [
    (command, option, read, param)
    for command, option in REPLACING
    for name, read, param in parameters()
    if name == command and isinstance(param.type, InputPath)
]


@pytest.mark.parametrize(("command", "option", "read", "param"), INPUTS)
def test_what_a_command_reads_is_never_replaced(
    run: Cli, tmp_path: Path, command: str, option: str, read: str, param: click.Parameter
) -> None:
    """Whichever option names it, by whatever name, and whatever is in it."""
    written = tmp_path / "written"
    assert run(*words(command, option, written)).status == 0
    for contents in (b"settings", written.read_bytes()):
        path = tmp_path / "input"
        path.write_bytes(contents)
        case = REPLACING[command, option]
        is_source = read in ("--log-dir", "--snapshot", "--file", "--warehouse")
        source: list[object] = [] if is_source else [*case.source]
        source += [read, path]
        if isinstance(param, click.Argument):
            source = [path]
        for name in ("link", "hard"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(path)
        os.link(path, tmp_path / "hard")
        for other in (path, tmp_path / "link", tmp_path / "hard", os.path.relpath(path)):
            for force in ((), ("--force",)):
                line = [*command.split(), *source, *case.line, option, other, *force]
                refused = run(*line)
                assert refused.status == 2, (line, refused.err)
                assert "this command reads that file" in refused.err
        assert path.read_bytes() == contents


def test_a_segment_is_never_replaced(cli: Cli, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(sample_log_dir(), logs)
    segment = max(logs.rglob("*.log"), key=lambda path: path.stat().st_size)
    contents = segment.read_bytes()
    for line in (
        ["decode-offsets", logs, "--parquet", segment],
        ["decode-offsets", "--log-dir", logs, "--parquet", segment],
        ["decode-offsets", segment, "--parquet", segment],
        ["snapshot", "--log-dir", logs, "--all", "-f", segment],
        ["offsets", "export", "--log-dir", logs, "--all", "--format", "json", "-f", segment],
    ):
        for force in ((), ("--force",)):
            refused = cli(*line, *force)
            assert refused.status == 2, refused.err
            assert "this command reads" in refused.err
    assert segment.read_bytes() == contents
    for _ in range(2):  # a snapshot may lie beside the log, as it always could
        assert cli("snapshot", "--log-dir", logs, "--all", "-f", logs / "s.json").status == 0


def test_a_table_of_a_warehouse_is_never_replaced(
    cli: Cli, tmp_path: Path, recorded_warehouse: Callable[[Path], Path]
) -> None:
    root = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse(sample_log_dir()), root)
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for path in files:
        line = ["history", "report", "--warehouse", root, GROUP, "--html", path, "--force"]
        assert cli(*line).status == 2
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == files


@pytest.fixture
def database(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with what the sample has, `o.db` in the current folder, made under an open umask."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGROUP_SQL_URL", raising=False)
    before = os.umask(0)
    try:
        line = ["offsets", "copy", "sample", "sql:o.db", "--all", "--create-table"]
        assert cli(*line, "--execute", "--backup", "before.json").status == 0
    finally:
        os.umask(before)
    return tmp_path / "o.db"


def test_a_database_and_a_backup_are_their_owners_alone(database: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in database.parent.iterdir()}
    assert modes == {"o.db": 0o600, "before.json": 0o600}


@pytest.mark.parametrize("form", ["json", "kafka-csv"])
@pytest.mark.parametrize("url", ["o.db", "sqlite:///o.db", "@o.url"])
def test_a_database_is_never_replaced(
    cli: Cli, database: Path, form: str, url: str, tmp_path: Path
) -> None:
    (tmp_path / "o.url").write_text("sqlite:///o.db\n")
    files = {name: (tmp_path / name).read_bytes() for name in ("o.db", "o.url")}
    (tmp_path / "hard").hardlink_to(database)
    for path in ["o.db", "hard", *(["o.url"] if url == "@o.url" else [])]:
        line = ["offsets", "export", "--sql", url, GROUP, "--format", form, "-f", path, "--force"]
        refused = cli(*line)
        assert (refused.status, "reads that file" in refused.err) == (2, True), refused.err
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


def test_a_file_that_settings_name_is_never_replaced(cli: Cli, tmp_path: Path) -> None:
    """Where it is read only when somebody connects, it is known by then."""
    store, settings = tmp_path / "trust.pem", tmp_path / "client.properties"
    store.write_text("-----BEGIN CERTIFICATE-----\n")
    settings.write_text(
        f"security.protocol=SSL\nssl.truststore.location={store}\nssl.truststore.type=PEM\n"
    )
    line = ["snapshot", "-b", "127.0.0.1:1", "--all", "--command-config", settings, "--force"]
    for path in (store, settings):
        assert cli(*line, "-f", path).status in (1, 2)
    assert store.read_text() == "-----BEGIN CERTIFICATE-----\n"


def test_csv_does_not_tell_who_wrote_it(cli: Cli, tmp_path: Path) -> None:
    line = ["offsets", "export", "--sample", GROUP, "-f", tmp_path / "plan.csv"]
    assert cli(*line).status == 0
    again = cli(*line)
    assert again.status == 1
    assert "--force" in again.err
    assert cli(*line, "--force").status == 0


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("command", ["snapshot", "offsets export"])
def test_names_of_standard_output(cli: Cli, command: str, name: str) -> None:
    result = cli(*command.split(), "--sample", GROUP, "-f", name)
    assert (result.status, result.out[:11]) == (0, '{"command":')


@pytest.mark.parametrize(("command", "option"), [each for each in NEW if each[0] != "plan apply"])
def test_a_backup_is_always_a_new_file(
    cli: Cli, database: Path, command: str, option: str, tmp_path: Path
) -> None:
    """Also where kgroup wrote the one of that name, or it is empty, or leads nowhere."""
    (tmp_path / "empty").touch()
    (tmp_path / "nowhere").symlink_to("absent")
    line = [*command.split(), *NEW[command, option], "--execute", "--yes"]
    if command in ("offsets copy", "offsets import"):  # else there is nothing to do
        change = ["offsets", "reset", GROUP, "--sql", "o.db", "--shift-by", "-1"]
        assert cli(*change, "--execute", "--backup", "shifted.json").status in (0, 4)
        export = ["offsets", "export", "--sample", "--all", "-f", "before.json", "--force"]
        assert cli(*export).status == 0
    before = database.read_bytes()
    for name in ("before.json", "empty", "nowhere", "o.db"):
        refused = cli(*line, option, name)
        assert refused.status == 1, refused.err
        assert f"{name}: expected a new file" in refused.err
    assert database.read_bytes() == before
    assert cli(*line, option, "new.json").status in (0, 4)
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o600


def test_a_warehouse_is_its_makers_alone_until_they_share_it(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "new" / "warehouse"
    line = ["history", "build", "--to", root]

    def modes() -> set[tuple[bool, int]]:
        paths = [root, *root.rglob("*")]
        return {(path.is_dir(), path.stat().st_mode & 0o777) for path in paths}

    before = os.umask(0)
    try:
        assert cli(*line, "--sample").status == 0
        assert modes() == {(True, 0o700), (False, 0o600)}
        for path in (root, *root.rglob("*")):  # chmod -R g+rX
            path.chmod(0o750 if path.is_dir() else 0o640)
        assert cli(*line, "--sample", "--cluster", "another").status == 0
        assert modes() == {(True, 0o750), (False, 0o640)}
    finally:
        assert os.umask(before) == 0


@pytest.mark.parametrize("name", ["file", "full", "link"])
def test_a_folder_that_is_no_warehouse_is_left_alone(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"my notes")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_bytes(b"my notes")
    (tmp_path / "link").symlink_to("full")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    refused = cli("history", "build", "--sample", "--to", tmp_path / name)
    assert (refused.status, "expected a warehouse" in refused.err) == (1, True), refused.err
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


WRITERS = {
    "kgroup/atomic_file.py": {"open", "os.open", "os.link", "os.replace"},
    "kgroup/cli/command/completion.py": {
        "open",  # /dev/null
        *("path.open", "os.truncate"),  # a line at the end of ~/.bashrc
    },
    "kgroup/cli/main.py": {"open", "os.open"},  # likewise, for streams that are closed
    "kgroup/cli/output/context.py": {"os.open"},  # likewise
    "kgroup/cli/command/decode_offsets.py": {"TemporaryDirectory"},
    "kgroup/cli/option/file.py": {"copy.open", "TemporaryDirectory"},
    "kgroup/columnar/small_segment.py": {"TemporaryDirectory", "path.write_bytes"},
    "kgroup/history/build/derivation.py": {"pq.write_table"},  # in a warehouse
    "kgroup/history/build/recorded.py": {"TemporaryDirectory"},
    "kgroup/history/input/split.py": {"TemporaryDirectory"},
    "kgroup/history/remote.py": {"NamedTemporaryFile", "open"},
    "kgroup/history/warehouse/table_file.py": {"pq.ParquetWriter", "self._writer.write_table"},
    "kgroup/history/warehouse/store.py": {"os.open", "path.open", "self.open"},
    "kgroup/history/warehouse/warehouse.py": {
        "(root / _STARTED).write_bytes",
        "path.write_bytes",
        "pq.write_table",
        "unfinished.touch",
    },
    "kgroup/kernel/compiled.py": {"tempfile.mkstemp", "open"},  # the user's cache
    "kgroup/operation/plan/plan_file.py": {"os.open"},  # a folder, to lock it
    "kgroup/render/parquet.py": {"pq.ParquetWriter"},  # to a file that is open
    "kgroup/source/broker/live_log.py": {"path.open"},  # in a folder for temporary files
    "kgroup/source/config/tls.py": {"NamedTemporaryFile"},
    "kgroup/source/sql/engine.py": {"os.open", "sqlite3.connect"},
    "kgroup/spark/session.py": {"TemporaryFile"},
    "kgroup/spark/stream.py": {"TemporaryDirectory"},
}
"""Where files are made; what the user names goes through `kgroup.atomic_file`, or is a warehouse,
a database or ~/.bashrc."""

MAKING = {
    *("write_text", "write_bytes", "touch", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory"),
    *("TemporaryFile", "ParquetWriter", "write_table", "symlink_to", "hardlink_to", "copyfile"),
    *("copytree", "os.replace", "os.rename", "os.link", "os.symlink", "os.open", "os.truncate"),
    *("sqlite3.connect", "OSFile"),
}


def test_files_are_made_in_known_places() -> None:
    found: dict[str, set[str]] = {}
    for path in (ROOT / "kgroup").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and (name := maker(node)) is not None:
                found.setdefault(str(path.relative_to(ROOT)), set()).add(name)
    assert found == WRITERS


def maker(call: ast.Call) -> str | None:
    """Return the name of a function that is called to make a file."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if name in MAKING or last in MAKING:
        return name
    if last == "open":
        modes = [
            *call.args[:2],
            *(keyword.value for keyword in call.keywords if keyword.arg == "mode"),
        ]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
        is_any = name == "open" and len(call.args) > 1 and len(texts) < 1
        if is_any or any(str(text)[:1] in "wax" or "+" in str(text) for text in texts):
            return name
    return None
