"""Real PostgreSQL and MariaDB servers on loopback, as context managers.

    with postgresql() as server:
        SqlOffsetStore(server.url())

Everything a server writes lies in a temporary folder of the user it runs as: neither runs as root,
and pytest lets nobody else into its folders. It ends with its context, with this process at the
latest.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from tests.broker.maven import die_with_parent
from tests.broker.process import HOST, ServerError, free_port

PASSWORD = "p:@/%'s"
"""Of the user kgroup; it has what URLs have another use for."""

QUOTED = "p%3A%40%2F%25%27s"

_T = TypeVar("_T", bound="SqlServer")

START_DEADLINE_S = 60.0
ATTEMPTS = 10


class SqlServer(ABC):
    """One server process with the database `app`: launched, awaited, ended in every case."""

    name: str
    scheme: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = self.folder / "server.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Make the data directory."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that runs in the foreground."""

    @abstractmethod
    def first(self) -> None:
        """Make the user and the database, once."""

    def url(self, user: str = f"kgroup:{QUOTED}", database: str = "app") -> str:
        """Return the URL of a database, for a user or `user:password`."""
        return f"{self.scheme}://{user}@{HOST}:{self.port}/{database}"

    @abstractmethod
    def admin_url(self, database: str = "app") -> str:
        """Return the URL of who may do everything."""

    def run(self, *statements: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run statements, each committed at once; give the rows of the last."""
        scheme, _, rest = (url or self.url()).partition("://")
        driver = {"postgresql": "psycopg", "mysql": "pymysql"}[scheme]
        engine = create_engine(f"{scheme}+{driver}://{rest}", isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                for statement in statements:
                    result = connection.exec_driver_sql(statement.replace("%", "%%"))
                return [tuple(row) for row in result] if result.returns_rows else []
        finally:
            engine.dispose()

    def start(self) -> None:
        """Launch, on the port and data of before if there was one, and wait until it answers."""
        is_new = self.port == 0
        if is_new:
            self.prepare()
        for _ in range(ATTEMPTS):
            if is_new:
                self.port = free_port()
            self._launch()
            if self._await_answer():
                break
            # A port that somebody took, or memory that a killed server's children still hold.
            if "in use" not in self.log_tail():
                raise ServerError(f"{self.name} ended while it started\n{self.log_tail()}")
            time.sleep(0.2)
        else:
            raise ServerError(f"{self.name} found no port\n{self.log_tail()}")
        if is_new:
            self.first()

    def _launch(self) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then ends the server
                preexec_fn=_as_nobody(),
            )

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would; PostgreSQL's children then end too."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that it logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    @abstractmethod
    def answers(self) -> None:
        """Ask it anything; a DBAPIError while it does not answer yet."""

    def _await_answer(self) -> bool:
        deadline = time.monotonic() + START_DEADLINE_S
        while self._process is not None and self._process.poll() is None:
            with suppress(DBAPIError):
                self.answers()
                return True
            if time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"{self.name} did not answer\n{self.log_tail()}")
            time.sleep(0.05)
        return False

    def _tool(self, *command: str) -> None:
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, preexec_fn=_as_nobody(), check=False
        )
        if done.returncode:
            raise ServerError(f"{command[0]}: {(done.stdout + done.stderr).decode()[-3000:]}")


class PostgreSql(SqlServer):
    """PostgreSQL; only the user `kgroup` needs a password, and `admin` may do everything."""

    name = "postgresql"
    scheme = "postgresql"

    def prepare(self) -> None:
        self._tool(
            _program("initdb", "/usr/lib/postgresql/*/bin"),
            *("--pgdata=data", "--username=admin", "--auth=trust", "--no-sync"),
            *("--encoding=UTF8", "--locale=C.UTF-8"),
        )
        (self.folder / "data" / "pg_hba.conf").write_text(
            "host all admin 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )

    def command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": HOST, "port": self.port, "unix_socket_directories": "",
            "shared_buffers": "32MB", "deadlock_timeout": "100ms", "max_connections": "20",
        }  # fmt: skip
        given = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [_program("postgres", "/usr/lib/postgresql/*/bin"), "-D", "data", *given]

    def answers(self) -> None:
        self.run("SELECT 1", url=self.admin_url("postgres"))

    def admin_url(self, database: str = "app") -> str:
        return self.url("admin", database)

    def first(self) -> None:
        password = PASSWORD.replace("'", "''")
        self.run(
            f"CREATE USER kgroup PASSWORD '{password}'",
            "CREATE DATABASE app OWNER kgroup",
            url=self.admin_url("postgres"),
        )


class MariaDb(SqlServer):
    """MariaDB, with the sql_mode of servers that cut what does not fit, unless one asks."""

    name = "mariadb"
    scheme = "mysql"

    def prepare(self) -> None:
        self._tool(
            _program("mariadb-install-db", "/usr/bin"),
            *("--no-defaults", f"--datadir={self.folder}/data", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", "--skip-name-resolve"),
        )

    def command(self) -> Sequence[str]:
        return [
            _program("mariadbd", "/usr/sbin"),
            *("--no-defaults", f"--datadir={self.folder}/data", f"--port={self.port}"),
            *(f"--bind-address={HOST}", f"--socket={self.folder}/socket", "--skip-name-resolve"),
            *("--sql-mode=", "--innodb-buffer-pool-size=32M", "--character-set-server=utf8mb4"),
            *("--collation-server=utf8mb4_general_ci", "--performance-schema=OFF"),
        ]

    def answers(self) -> None:
        self.run("SELECT 1", url=self.admin_url("mysql"))

    def admin_url(self, database: str = "app") -> str:
        return self.url("root", database)

    def first(self) -> None:
        password = PASSWORD.replace("'", "''")
        self.run(
            "CREATE DATABASE app",
            f"CREATE USER kgroup@'127.0.0.1' IDENTIFIED BY '{password}'",
            "GRANT ALL ON app.* TO kgroup@'127.0.0.1'",
            url=self.admin_url("mysql"),
        )


@contextmanager
def postgresql() -> Iterator[PostgreSql]:
    """Run PostgreSQL."""
    with _folder() as folder:
        yield from _running(PostgreSql(folder))


@contextmanager
def mariadb() -> Iterator[MariaDb]:
    """Run MariaDB."""
    with _folder() as folder:
        yield from _running(MariaDb(folder))


def _running(server: _T) -> Iterator[_T]:
    try:
        server.start()
        yield server
    finally:
        server.kill()  # nothing of it is needed any more


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder of the user that servers run as."""
    with TemporaryDirectory(prefix="kgroup-sql-", ignore_cleanup_errors=True) as name:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(name, nobody.pw_uid, nobody.pw_gid)
        yield Path(name)


def _program(name: str, folder: str) -> str:
    """Find a program; Debian keeps those of PostgreSQL by version, off the path."""
    place = Path(folder)
    paths = sorted(place.parent.parent.glob("*/bin")) if "*" in folder else [place]
    path = os.pathsep.join([*map(str, reversed(paths)), os.environ.get("PATH", "")])
    program = shutil.which(name, path=path)
    if program is None:
        raise ServerError(f"expected the program {name}, found none; `make databases` installs it")
    return program


def _as_nobody() -> Callable[[], None]:
    """Return a child's first steps: it dies with its parent, and is not root."""
    die = die_with_parent()
    if os.geteuid() != 0:
        return die
    user = pwd.getpwnam("nobody")

    def preexec() -> None:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        die()  # behind these: the kernel forgets it when a process changes its user

    return preexec
