"""What a query may do: read the tables of the warehouse, and compute from what it reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kgroup.errors import UsageError
from kgroup.history.warehouse.table import TABLES

_RULE = (
    "A query may read the tables of the warehouse and call functions that compute from their "
    "arguments; docs/history.md has the rules, under sql"
)


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions of an engine; those on neither list may not be called either.

    Attributes:
        allowed: names of those that compute from their arguments, the time of day or chance.
        refused: names, or patterns of names, of others, separated by spaces; by reason.
    """

    allowed: frozenset[str]
    refused: Mapping[str, str]

    def reason(self, name: str) -> str | None:
        """Tell why a query may not call a function; None: no reason is listed."""
        for reason, patterns in self.refused.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
                return reason
        return None

    def check(self, name: str) -> None:
        """Make sure that a query may call a function.

        Raises:
            UsageError: it may not.
        """
        if name.lower() not in self.allowed:
            raise self.refusal(name)

    def refusal(self, name: str) -> UsageError:
        """Say that a query may not call a function, and why."""
        reason = self.reason(name.lower()) or "it is none of those that kgroup knows"
        return UsageError(f"function {name} is not allowed: {reason}. {_RULE}")


def names(text: str) -> frozenset[str]:
    """Give the words of a text."""
    return frozenset(text.split())


def check_table(name: str, ctes: Collection[str] = ()) -> None:
    """Make sure that a query may read a relation.

    Args:
        name: of the relation, with its qualifiers.
        ctes: names, in lower case, that the query gives to parts of itself (WITH).

    Raises:
        UsageError: it is neither a table of the warehouse nor one of these.
    """
    if name.lower() not in TABLES and name.lower() not in ctes:
        raise missing_table(name)


def missing_table(name: str) -> UsageError:
    """Say that there is no such table, and which there are: engines suggest some of their own."""
    return UsageError(f"no table {name}; there are: {', '.join(TABLES)}")


def refused_statement(found: str) -> UsageError:
    """Say that a text is no query, or has a clause that no query may have."""
    return UsageError(
        f"expected one query: SELECT ..., WITH ... or DESCRIBE a table; found {found}. {_RULE}"
    )
