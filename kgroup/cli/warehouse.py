"""Which warehouse is asked, by which engine."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.options import PATH
from kgroup.errors import KgroupError, NotFoundError

if TYPE_CHECKING:
    from kgroup.history.engine import Engine
    from kgroup.history.warehouse import Warehouse

__all__ = ["WarehouseChoice", "unchanged_if_failed", "warehouse_options"]


@dataclass(frozen=True, slots=True)
class WarehouseChoice:
    """What the options say.

    Attributes:
        root: the warehouse's folder.
        cluster: to look in only; None: in all.
    """

    root: Path
    cluster: str | None

    @contextmanager
    def open(self) -> "Iterator[Engine]":
        """Give an engine for the tables.

        Raises:
            InputError: the folder is no warehouse, or cannot be read.
            NotFoundError: it has no such cluster.
            KgroupError: what the engine needs is not installed.
        """
        with self.open_both() as (_, engine):
            yield engine

    @contextmanager
    def open_both(self) -> "Iterator[tuple[Warehouse, Engine]]":
        """Give the warehouse too; otherwise as `open`."""
        from kgroup.history.engine import DuckEngine
        from kgroup.history.warehouse import read_warehouse

        with read_warehouse(self.root) as warehouse:
            if self.cluster is not None and self.cluster not in warehouse.clusters:
                there = ", ".join(warehouse.clusters) or "none yet"
                raise NotFoundError(
                    f"{self.root}: no cluster {self.cluster} in this warehouse; there are: {there}"
                )
            with DuckEngine(warehouse.files(self.cluster)) as engine:
                yield warehouse, engine


def warehouse_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--warehouse` and `--cluster`; the command takes ``warehouse: WarehouseChoice``."""

    @wraps(command)
    def with_warehouse(*, root: Path, cluster: str | None, **rest: Any) -> Any:
        return command(warehouse=WarehouseChoice(root, cluster), **rest)

    root = click.option(
        "--warehouse",
        "root",
        metavar="DIR",
        type=PATH,
        envvar="KGROUP_WAREHOUSE",
        show_envvar=True,
        required=True,
        help="The folder that 'kgroup history build' made.",
    )
    cluster = click.option(
        "--cluster",
        metavar="NAME",
        help="Only of this cluster; needed where several have what is asked for.",
    )
    return root(cluster(with_warehouse))


@contextmanager
def unchanged_if_failed(root: Path) -> Iterator[None]:
    """Say of errors of writing, such as a full disk, what they mean for the tables."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise KgroupError(
            f"{error.filename or root}: {reason}. Nothing has changed: the tables are as they were."
        ) from None
