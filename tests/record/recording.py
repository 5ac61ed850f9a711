"""One recorded scenario: a work folder while servers run, a data folder and manifest after."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SAMPLE = ROOT / "kgroup" / "sample"

Keep = Callable[[str], bool]
"""Whether a file, by its path relative to the log directory, belongs to the recorded data."""


class Recording:
    """What a scenario collects: the steps that were done, answers of brokers, log directories."""

    def __init__(self, name: str, work: Path) -> None:
        self.work = work
        self.kept = work / "kept"
        self.kept.mkdir()
        self.manifest: dict[str, Any] = {"scenario": name, "done": []}

    def did(self, what: str) -> None:
        """Note one step for the readers of the manifest."""
        self.manifest["done"].append(what)

    def note(self, **facts: Any) -> None:
        """Put facts into the manifest: broker, configuration, answers."""
        self.manifest.update(facts)

    def keep(self, log_dir: Path, *, wanted: Keep | None = None, into: str = "") -> None:
        """Copy a broker's log directory, the files that `wanted` accepts, as they are now."""
        chosen = wanted or log_and_identity
        for path in sorted(log_dir.rglob("*")):
            name = path.relative_to(log_dir).as_posix()
            if path.is_file() and chosen(name):
                copy = self.kept / into / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


def log_and_identity(name: str) -> bool:
    """Segments of offsets and of user topics, and the files that name cluster and topics."""
    folder, _, file = name.rpartition("/")
    if not folder:
        return file == "meta.properties"
    if folder.startswith(("__cluster_metadata-", "__transaction_state-")):
        return False
    return file.endswith(".log") or file == "partition.metadata"


def everything(name: str) -> bool:
    """All that a stopped broker leaves: indexes, snapshots and checkpoints too."""
    return not name.startswith(("__cluster_metadata-", "__transaction_state-"))


@contextmanager
def recording(name: str, target: Path, *, data: Path = DATA) -> Iterator[Recording]:
    """Record into `target`, which is replaced as a whole once the scenario has succeeded.

    The manifest goes to `<data>/<name>/`. A work folder is left behind where the scenario has
    failed, with the logs of servers and clients.
    """
    work = Path(tempfile.mkdtemp(prefix="kgroup-record-"))
    try:
        current = Recording(name, work)
        yield current
        for old in {target, data / name}:
            if old.exists():
                shutil.rmtree(old)
        shutil.copytree(current.kept, target)
        (data / name).mkdir(parents=True, exist_ok=True)
        write_manifest(data / name, target, current.manifest)
    except BaseException:
        print(f"the logs of servers and clients are kept in {work}")
        raise
    shutil.rmtree(work)


def write_manifest(folder: Path, files: Path, manifest: dict[str, Any]) -> None:
    """Write `manifest.json` into `folder`, with the list of all recorded files below `files`.

    Its `root` says where these are, relative to the project (or absolute, outside of it).
    """
    inside = files.is_relative_to(ROOT)
    manifest["root"] = (files.relative_to(ROOT) if inside else files).as_posix()
    manifest["files"] = file_entries(files)
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


def file_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file below `folder`, but the manifest and the README."""
    entries = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in ("manifest.json", "README.md"):
            data = path.read_bytes()
            entries[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return entries
