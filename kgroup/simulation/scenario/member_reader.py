"""What reads the members of a scenario's file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Generic, TypeVar

from kgroup.simulation.rules import NEWEST, Version
from kgroup.simulation.scenario.scenario import Action, ConnectorPlan, MemberPlan, Paused
from kgroup.simulation.scenario.toml_table import Table

P = TypeVar("P", bound=MemberPlan | ConnectorPlan)


class MemberReader(ABC, Generic[P]):
    """Reads members of one kind.

    Attributes:
        fields: names of all that a member may have.
        has_generations: whether a commit may claim one.
        pauses: what may be paused of it.
        actions: what may happen.
    """

    fields: Collection[str]
    has_generations: bool
    pauses: Collection[Paused]
    actions: Collection[Action]

    @abstractmethod
    def read(self, table: Table, name: str) -> P:
        """Read how a member starts."""

    @abstractmethod
    def numbered(self, table: Table, plan: P, name: str, number: str) -> P:
        """Make one of several alike of a plan; the number is "" of one alone."""

    @abstractmethod
    def topics(self, plan: P) -> tuple[str, ...]:
        """Return the topics that a member names."""

    @abstractmethod
    def changed(self, table: Table, plan: P) -> P:
        """Configure a member anew by a step's `set`; what is not named stays."""

    @abstractmethod
    def completed(self, common: Table, table: Table) -> Table:
        """Give a member the fields of all members that it does not have itself."""


def read_version(table: Table, default: Version) -> Version:
    """Read the field `version`: one from (1, 1) to the newest.

    Raises:
        InputError: it is none that can be simulated.
    """
    if "version" not in table:
        return default
    text = table.text("version")
    parts = text.split(".")
    is_number = text.isascii() and all(part.isdigit() and len(part) < 4 for part in parts)
    if not is_number or not 2 <= len(parts) <= 3:
        raise table.error("version", "a version such as 2.8.2", text)
    version = tuple(map(int, parts))
    if not (1, 1) <= version <= NEWEST:
        raise table.error("version", "a version from 1.1 to 4.3.1", text)
    return version
