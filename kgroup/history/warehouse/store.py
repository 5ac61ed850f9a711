"""Where a warehouse is: a folder, or a place in an object store.

A file in a folder is a `Path`. A file in an object store is a `RemotePath`, which has those methods
of a `Path` that a warehouse needs. Functions here do what differs otherwise.

Nobody locks an object store: several processes may write their files at once, and the commit
decides whose become valid.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, unquote

from kgroup.errors import InputError, UsageError
from kgroup.history.remote import RemoteFiles, first_line, is_uri

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMES = ("s3", "gs")
"""Object stores in which a commit can be refused if another one came first."""

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")

_PATIENCE = {"max_retries": "3", "retry_timeout": "30s", "connect_timeout": "10s"}
"""Settings of delta-rs, which would try for three minutes to reach a server."""


@dataclass(frozen=True, slots=True)
class _Status:
    """What an object store says of a file, in the terms of `os.stat`.

    Attributes:
        st_size: size in bytes.
        st_mtime: time when it was written, in seconds.
    """

    st_size: int
    st_mtime: float


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A file or folder in an object store.

    Attributes:
        scheme: scheme of its URI.
        user: user, and possibly password, of its URI; empty without.
        path: bucket, and path in it.
        parameters: parameters of its URI, with the question mark; empty without.
    """

    scheme: str
    user: str = field(repr=False)
    path: str
    parameters: str
    _known: _Status | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, uri: str) -> RemotePath:
        """Return the location that a URI names, without connecting to it.

        Raises:
            UsageError: warehouses cannot be there.
        """
        scheme, _, rest = uri.partition("://")
        scheme = {"gcs": "gs"}.get(scheme.lower(), scheme.lower())
        address, mark, parameters = rest.partition("?")
        host, slash, below = address.partition("/")
        user, _, bucket = host.rpartition("@")
        path = bucket + slash + below
        if not user and ":" in host:  # an unquoted password with a slash
            user, _, path = address.rpartition("@")
        path = path.rstrip("/")
        if scheme not in _SCHEMES or not path or path.startswith("/"):
            raise UsageError(
                f"{scheme}://{path}: expected the folder of a warehouse: a path, s3://BUCKET/PATH, "
                "gs://BUCKET/PATH or file:///PATH"
            )
        if wrong := re.search("#|//", path):
            raise UsageError(
                f"{scheme}://{path}: expected a path without {wrong[0]}, which pyarrow and "
                "deltalake do not take as a part of it; choose another one"
            )
        return cls(scheme, user, path, mark + parameters.replace("/", "%2F"))

    def __str__(self) -> str:
        """Return the URI without possible secrets, for messages."""
        return f"{self.scheme}://{self.path}"

    def __truediv__(self, other: str) -> RemotePath:
        """Return the location of a relative path."""
        return replace(self, path=f"{self.path}/{other}", _known=None)

    @property
    def uri(self) -> str:
        """The URI; it may contain secrets."""
        return self._uri(self.path)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.parts[-1]

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the path."""
        return PurePosixPath(self.path).parts

    @property
    def parent(self) -> RemotePath:
        """Location of the folder."""
        return replace(self, path=self.path.rpartition("/")[0], _known=None)

    def absolute(self) -> RemotePath:
        """Return itself: it is the same everywhere."""
        return self

    def relative_to(self, root: RemotePath) -> PurePosixPath:
        """Return the path below a folder."""
        return PurePosixPath(self.path).relative_to(root.path)

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: an object store has no folders."""

    def exists(self) -> bool:
        """Return whether it is there; see `stat`."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def stat(self) -> _Status:
        """Return size and time of a file; the size of a folder is 0.

        Raises:
            OSError: it is not there, or the store cannot be asked.
        """
        from pyarrow.fs import FileType

        if self._known is not None:
            return self._known
        with self._errors():
            info = self.files.get_file_info(self.path)
        if info.type == FileType.NotFound:
            raise FileNotFoundError(2, "No such file or directory", str(self))
        return _Status(info.size or 0, (info.mtime_ns or 0) / 1e9)

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield files whose relative path matches a pattern, in which ``*`` is part of a name.

        Raises:
            OSError: the store cannot be asked.
        """
        from pyarrow.fs import FileType

        parts = PurePosixPath(pattern).parts
        fixed = next(at for at, part in enumerate(parts) if "*" in part)
        folder = "/".join((self.path, *parts[:fixed]))
        for info in self._below(folder, recursive=fixed + 1 < len(parts)):
            path = PurePosixPath(info.path).relative_to(self.path)
            is_file = info.type == FileType.File
            if is_file and len(path.parts) == len(parts) and path.match(pattern):
                status = _Status(info.size, (info.mtime_ns or 0) / 1e9)
                yield replace(self, path=info.path, _known=status)

    def is_empty(self) -> bool:
        """Return whether there is no file below it.

        Raises:
            OSError: the store cannot be asked.
        """
        return not self._below(self.path, recursive=False)

    def _below(self, folder: str, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector

        # without recursion, pyarrow finds nothing in GCS below folders (apache/arrow#35993)
        is_recursive = recursive or self.scheme == "gs"
        with self._errors():
            found: list[Any] = self.files.get_file_info(
                FileSelector(folder, recursive=is_recursive, allow_not_found=True)
            )
        return found

    def open(self, mode: str = "rb") -> Any:
        """Open a file for reading, or for writing (wb): it exists once it is closed.

        Raises:
            OSError: it is not there, or the store cannot be asked.
        """
        with self._errors():
            if mode == "wb":
                return self.files.open_output_stream(self.path)
            return self.files.open_input_file(self.path)

    def write_bytes(self, data: bytes) -> None:
        """Write a whole file.

        Raises:
            OSError: it cannot be written.
        """
        with self._errors(), self.open("wb") as file:
            file.write(data)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove a file.

        Raises:
            OSError: it cannot be removed.
        """
        with suppress(FileNotFoundError) if missing_ok else self._errors(), self._errors():
            self.files.delete_file(self.path)

    @property
    def files(self) -> Any:
        """The file system."""
        # one connection for all files of a bucket
        return RemoteFiles(self._uri(self.path.partition("/")[0])).files

    def _uri(self, path: str) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{path}{self.parameters}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Have errors name the file, and not repeat what is in a URI."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(2, "No such file or directory", str(self)) from None
        except OSError as error:
            raise OSError(f"{self}: {first_line(error)}") from None

    def delta_options(self) -> dict[str, str]:
        """Return what delta-rs needs to reach the same place with the same credentials."""
        given = {name: values[-1] for name, values in parse_qs(self.parameters[1:]).items()}
        endpoint = given.get("endpoint_override", "")
        if endpoint and "://" not in endpoint:
            endpoint = f"{given.get('scheme', 'https')}://{endpoint}"
        if self.scheme == "gs":
            return _PATIENCE | self._gcs_options(endpoint)
        endpoint = endpoint or next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
        options = {
            "aws_region": self.files.region,
            "aws_conditional_put": "etag",  # a commit never replaces another one
            "aws_s3_allow_unsafe_rename": "false",
        }
        if endpoint:
            options["aws_endpoint_url"] = endpoint
            options["allow_http"] = str(endpoint.startswith("http:")).lower()
        key, _, secret = map(unquote, self.user.partition(":"))
        if key:
            options |= {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return _PATIENCE | options

    def _gcs_options(self, endpoint: str) -> dict[str, str]:
        emulator = os.environ.get(
            "CLOUD_STORAGE_EMULATOR_ENDPOINT", ""
        )  # pyarrow's library asks it
        if not endpoint and not emulator:
            return {"google_skip_signature": "true"} if self.user == "anonymous" else {}
        if endpoint and self.user != "anonymous":
            raise UsageError(
                f"{self}: deltalake cannot send credentials to another endpoint of GCS; use "
                "gs://anonymous@BUCKET/PATH with endpoint_override, or leave it out"
            )
        endpoint = endpoint or emulator
        key = {
            "gcs_base_url": endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        is_open = str(endpoint.startswith("http:")).lower()
        return {"google_service_account_key": json.dumps(key), "allow_http": is_open}


Location: TypeAlias = Path | RemotePath
"""A file or folder of a warehouse, or its own folder."""


def location_of(text: str) -> Location:
    """Return the location that a path or a URI names.

    Raises:
        UsageError: warehouses cannot be there.
        InputError: pyarrow cannot open the URI.
    """
    if not is_uri(text):
        return Path(text)
    if text.partition("://")[0].lower() == "file":
        return RemoteFiles(text).path
    return RemotePath.of(text)


def written_as(location: Location) -> str:
    """Return the text for `location_of`; it may contain secrets."""
    return str(location) if isinstance(location, Path) else location.uri


def as_typed(location: Location) -> str:
    """Return the text for a command line, without a password."""
    if isinstance(location, Path):
        return str(location)
    user = "anonymous@" if location.user == "anonymous" else ""
    return f"{location.scheme}://{user}{location.path}{location.parameters}"


def file_at(root: Location, path: str) -> Location:
    """Return the location of a file: of a path below `root`, an absolute path or a URI."""
    return RemotePath.of(path) if is_uri(path) else root / path


def open_input(path: Location) -> Any:
    """Open a file for pyarrow to read.

    Raises:
        OSError: it cannot be read.
    """
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem().open_input_file(str(path)) if isinstance(path, Path) else path.open()


def open_output(path: Location) -> Any:
    """Open a file for pyarrow to write; its folder is created if necessary.

    Raises:
        OSError: it cannot be written.
    """
    from pyarrow.fs import LocalFileSystem

    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(path, Path):
        return LocalFileSystem().open_output_stream(str(path))
    return path.open("wb")


def dataset(files: Sequence[RemotePath], schema: pa.Schema) -> Any:
    """Return a pyarrow dataset of Parquet files in one bucket."""
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    return FileSystemDataset.from_paths(
        [file.path for file in files],
        schema=schema,
        format=ParquetFileFormat(),
        filesystem=files[0].files,
    )


def sizes(root: Location, paths: Iterable[str]) -> Iterator[tuple[str, int | OSError]]:
    """Yield the size of each file of a warehouse, or why it cannot be known.

    Raises:
        OSError: an object store cannot be asked.
    """
    folders: dict[RemotePath, list[tuple[str, str]]] = {}
    for path in paths:
        file = file_at(root, path)
        if isinstance(file, RemotePath):
            folders.setdefault(file.parent.parent, []).append((path, file.path))
            continue
        try:
            yield path, file.stat().st_size
        except OSError as error:
            yield path, error
    for folder, below in folders.items():  # one list instead of a request for each file
        found = {file.path: file.stat().st_size for file in folder.glob("*/*")}
        for path, at in below:
            yield path, found.get(at, FileNotFoundError(2, "No such file or directory"))


def what_is(root: Location) -> str:
    """Return what is there, for messages.

    Raises:
        InputError: an object store cannot be asked.
    """
    if isinstance(root, RemotePath):
        try:
            return "nothing" if root.is_empty() else "other files"
        except OSError as error:
            raise unreachable(error) from None
    if not root.exists():
        return "nothing"
    if not root.is_dir():
        return "a file"
    return "a folder with other files" if any(root.iterdir()) else "an empty folder"


def unreachable(error: OSError) -> InputError:
    """Return the error about an object store that does not answer, or refuses to."""
    return InputError(
        f"{error}. Check the name of the bucket, the endpoint and region, and whether these "
        "credentials may list, read, write and delete objects there."
    )


def check_path(root: Location) -> None:
    """Check that all libraries understand a path.

    Raises:
        UsageError: it is not UTF-8, or delta-rs would decode it.
    """
    path = root.absolute()
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{path}: expected a folder with a UTF-8 path; choose another one"
        ) from None
    if escape := re.search("%[0-9A-Fa-f]{2}", str(path)):
        raise UsageError(
            f"{path}: expected a folder without {escape[0]} in its path, which deltalake would "
            "decode; choose another one"
        )


def delta_location(path: Location) -> tuple[str | Path, dict[str, str] | None]:
    """Return the location of a table, and the options, for delta-rs."""
    return (path, None) if isinstance(path, Path) else (str(path), path.delta_options())


def sync(root: Location, paths: Iterable[str]) -> None:
    """Sync files, and the folders that contain them, to disk; an object store keeps them anyway."""
    if isinstance(root, Path):
        files = {root / path for path in paths}
        folders = {parent for file in files for parent in file.parents if root in parent.parents}
        for path in (*files, *folders, root):
            sync_one(path)


def sync_one(path: Path) -> None:
    """Sync a file or folder to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def remove(path: Location) -> None:
    """Remove a file, and the folders that become empty, if possible.

    If a build creates a file in such a folder meanwhile, the folder is not empty, or the build
    creates it again.
    """
    with suppress(OSError):
        path.unlink()
    if isinstance(path, Path):
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()


@contextmanager
def locked(path: Path, holder: str) -> Iterator[bool]:
    """Hold a lock while the context lasts; yield whether it is held.

    Args:
        path: file to lock.
        holder: text to write into the file.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = True
        except BlockingIOError:
            is_held = False
        if is_held:
            os.ftruncate(number, 0)
            os.write(number, holder.encode())
        yield is_held
    finally:
        os.close(number)
