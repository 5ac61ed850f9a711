"""Segments in pyarrow's file systems: s3://, gs://, hdfs://, file:// and others.

A URI names a segment file, a folder of segments or a log directory, like a local path. It may
contain secrets, before the host or as parameters; neither is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from kgroup.errors import InputError
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.segment import Segment
from kgroup.source.log.folder import LARGEST_PAIRS, PARTITION_METADATA, pairs_in
from kgroup.source.log.segment_file import (
    as_broker,
    is_segment_name,
    log_end,
    may_be_segment_name,
    segment_at,
    topic_folders,
)

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.*")
_PIECE = 8 << 20
_AT_ONCE = 4
"""Pieces copied concurrently: a single copy waits for the network most of the time."""
_BEHIND = 1 << 20
"""Bytes after a part of a file that are copied too, to judge damage at its end."""
_ASKED_AT_ONCE = 16
_PATIENCE_S = 30
"""Seconds after which GCS counts as unreachable."""


def is_uri(location: str) -> bool:
    """Return whether a location is a URI rather than a path."""
    return _URI.fullmatch(location) is not None


def first_line(error: Exception) -> str:
    """Return the first line of an error, without its full stop; some messages are pages long."""
    text = str(getattr(error, "strerror", None) or error)
    return text.partition("\n")[0].rstrip(" .")


@lru_cache(maxsize=16)
def _connected(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    if uri.lower().startswith(("gs:", "gcs:")) and "retry_limit_seconds" not in uri:
        # by default 15 minutes
        uri = f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={_PATIENCE_S}"
    files, path = FileSystem.from_uri(uri)
    return files, path


class RemoteFiles:
    """A file system, and the location in it that a URI names.

    Attributes:
        uri: the URI.
        path: path of the location in the file system.
        shown: the URI without possible secrets.
        files: the file system.
        is_local: whether it is the local file system.
    """

    def __init__(self, uri: str) -> None:
        """Connect to the file system.

        Raises:
            InputError: pyarrow cannot open the URI.
        """
        self.uri = uri
        scheme, _, rest = uri.partition("://")
        host, slash, path = re.split("[?#]", rest)[0].partition("/")
        self.shown = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}".rstrip("/")
        try:
            self.files, path = _connected(uri)
        except (OSError, ValueError, NotImplementedError) as error:
            # an unquoted secret may contain any character, and pyarrow repeats the whole URI
            shown = f"{scheme}://{re.split('[?#]', rest.rpartition('@')[2])[0]}"
            raise InputError(
                f"{shown}: expected a path, or a URI that pyarrow can open (s3://, gs://, "
                f"hdfs://): {first_line(error).replace(uri, shown)}",
                path=shown,
            ) from None
        self.path = Path(path)
        self.is_local = self.files.type_name == "local"

    def name(self, path: Path) -> str:
        """Return the name of a file or folder for messages."""
        own, path_text = (str(address).lstrip("/") for address in (self.path, path))
        root = self.shown.removesuffix(own)
        return (self.uri.partition("://")[0] + "://" if root == self.shown else root) + path_text

    def find(self) -> list[Segment]:
        """Find segments, including those not to be loaded; see `find_segments`.

        Raises:
            InputError: the path does not exist, or has no segment.
            OSError: the path cannot be read.
        """
        from pyarrow.fs import FileType

        info = self.files.get_file_info(str(self.path))
        folders = []
        if info.type == FileType.NotFound:
            raise InputError(f"{self.shown}: No such file or directory", path=self.shown)
        if info.type == FileType.File:
            if may_be_segment_name(self.path.name):
                folders = [[segment_at(self.path, info.size)]]
        else:
            below = topic_folders(self._folders_in(self.path)) or {self.path: None}
            folders = [self._segments_in(folder, reason) for folder, reason in below.items()]
        segments = [
            segment for folder in folders for segment in as_broker(folder, end_of=self._end_of)
        ]
        if not segments:
            raise InputError(
                f"{self.shown}: expected segments (*.log) or folders named {OFFSETS_TOPIC}-N, "
                "found none",
                path=self.shown,
            )
        return segments

    def read_pairs(self, path: Path, separator: str) -> dict[str, str]:
        """Read a small file of key-value pairs; see `source.log.folder.read_pairs`."""
        try:
            return pairs_in(self.read(path, 0, LARGEST_PAIRS), separator)
        except OSError:
            return {}

    def read_topic_names(self, directory: Path) -> dict[str, str]:
        """Read topic names by topic id; see `source.log.folder.read_topic_names`."""
        files: dict[str, Path] = {}
        try:
            for folder in sorted(self._folders_in(directory)):
                topic, dash, number = folder.name.rpartition("-")
                if dash and number.isdecimal():
                    files.setdefault(topic, folder / PARTITION_METADATA)
        except OSError:
            return {}
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            contents = pool.map(lambda file: self.read_pairs(file, ":"), files.values())
            return {
                pairs["topic_id"]: topic
                for topic, pairs in zip(files, contents, strict=True)
                if "topic_id" in pairs
            }

    def read(self, path: Path, position: int, size: int) -> bytes:
        """Read bytes of a file; fewer if it ends before.

        Raises:
            OSError: the file cannot be read.
        """
        with self.open(path) as file:
            left = max(file.size() - position, 0)
            data: bytes = file.read_at(min(size, left), position) if left else b""
            return data

    def open(self, path: Path) -> Any:
        """Open a binary file for random access; it also has `size` and `read_at`.

        Raises:
            OSError: the file cannot be read.
        """
        return self.files.open_input_file(str(path))

    @contextmanager
    def copied(self, path: Path, start: int, end: int) -> Iterator[Path]:
        """Yield a local copy of a byte range of a file, at the same positions.

        The space before the range is a hole in the copy, which takes no disk space.

        Raises:
            OSError: the file cannot be read, or the copy cannot be written.
        """
        with self.open(path) as file, NamedTemporaryFile(prefix="kgroup-") as copy:
            last = min(end + _BEHIND, file.size())

            def copy_piece(at: int) -> None:
                data = file.read_at(min(_PIECE, last - at), at)
                with open(copy.name, "r+b") as target:
                    target.seek(at)
                    target.write(data)

            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for _ in pool.map(copy_piece, range(start, last, _PIECE)):
                    pass
            yield Path(copy.name)

    def _folders_in(self, folder: Path) -> list[Path]:
        from pyarrow.fs import FileType

        if self.files.type_name == "gcs":
            # pyarrow lists no GCS folder without an object of its own (apache/arrow#35993)
            below = self._children(folder, recursive=True)
            paths = {Path(entry.path).parent for entry in below if entry.type == FileType.File}
            return sorted(
                {
                    path
                    for child in paths
                    for path in (child, *child.parents)
                    if path.parent == folder
                }
            )
        return [Path(c.path) for c in self._children(folder) if c.type == FileType.Directory]

    def _segments_in(self, folder: Path, reason: str | None) -> list[Segment]:
        from pyarrow.fs import FileType

        return [
            segment_at(Path(child.path), child.size, reason)
            for child in self._children(folder)
            if child.type == FileType.File and is_segment_name(child.base_name)
        ]

    def _children(self, folder: Path, *, recursive: bool = False) -> list[Any]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(str(folder), recursive=recursive)
        children: list[Any] = self.files.get_file_info(selector)
        return children

    def _end_of(self, segment: Segment) -> int:
        with self.copied(segment.path, 0, segment.size) as copy:
            return log_end(copy, segment.base_offset or 0)
