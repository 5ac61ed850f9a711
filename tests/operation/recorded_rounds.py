"""Rounds of live groups (`tests/data/rounds`) as dry runs foretell them, and tables of them.

`python -m tests.operation.recorded_rounds` writes the tables into `docs/assign.md`, and with the
file of a play (`tests.broker.client.play`) writes its table to standard output.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from kgroup.assignor.group_spec import GroupSpec
from kgroup.model.snapshot import Snapshot
from kgroup.operation.assign.dry_run import AssignRequest, Mode, assign_group
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.what_if import Changes
from kgroup.source.snapshot.source import snapshot_source
from tests.broker.client.rounds import KINDS, path_of, read_rounds

PAGE = Path(__file__).parents[2] / "docs" / "assign.md"
PLAYS = path_of("plays")
_LATEST = ("fourteenth play", "fifteenth play", "sixteenth play")
"""Plays that have a line of their own in the table."""
MARKS = ("<!-- generated: rounds -->\n\n", "<!-- generated: plays -->\n\n")

_UNCERTAIN = re.compile(
    r"^The actual assignment may be different|would assign differently|is not imitated"
    r"|^The (strategy|assignor) may change|^No rebalance may follow|may need several rebalances"
    r"|^The group may never become stable|The group is stuck until another member leads"
)
"""Warnings that the members may own something else; those about single members are marks."""

_TAKEN_TO_STAY = re.compile("^the strategy is taken to stay").match

_NO_RETURN = re.compile(
    "^(The rebalance waits|No rebalance follows) until the sessions of .* expire"
).match

_CHANCE = re.compile(r"does not determine what .* because the result may be random")


class Result(Enum):
    """How a round ended, next to what a dry run says."""

    MATCHED = "matched"
    WARNED = "matched with a warning"
    DIFFERED = "differed with a warning"
    WRONG = "wrong"
    CHANCE = "left to chance"


@dataclass(frozen=True)
class Round:
    """A round, and what a dry run of its snapshot says.

    Attributes:
        family: libraries of the members.
        line: as it was recorded.
        foretold: owned partitions by client id, of the members that do not depend on unknown ids.
        warnings: all warnings of the dry run.
        notes: all notes.
        has_failed: whether the assignor is foretold to fail.
    """

    family: str
    line: Mapping[str, Any]
    foretold: Mapping[str, set[tuple[str, int]]]
    warnings: Sequence[str]
    notes: Sequence[str] = ()
    has_failed: bool = False

    @property
    def is_vote_hidden(self) -> bool:
        """Whether members list different strategies, which nothing shows, as a note says."""
        lists = set(self.line.get("lists", {}).values())
        return len(lists) > 1 and any(map(_TAKEN_TO_STAY, self.notes))

    @property
    def owned(self) -> dict[str, set[tuple[str, int]]]:
        """What the members owned that are foretold."""
        return {
            name: {(topic, at) for topic, numbers in topics.items() for at in numbers}
            for name, topics in (self.line["outcome"] or {}).items()
            if name in self.foretold
        }

    @property
    def story(self) -> str:
        """What happened, and how the members differ."""
        line = self.line
        if line["outcome"] is None:
            return f"{line['kind']}: {line['change']} {line['options']}: no rest {self.warnings}"
        owned = self.owned
        differ = {
            name: (sorted(own - owned.get(name, own)), sorted(owned.get(name, own) - own))
            for name, own in self.foretold.items()
            if own != owned.get(name)
        }
        return f"{line['kind']}: {line['change']} {line['options']}: {differ} {self.warnings}"

    @property
    def result(self) -> Result:
        """How it ended.

        A group does not come to rest if its leader fails, or a member does not return.
        """
        is_warned = any(_UNCERTAIN.search(warning) for warning in self.warnings)
        if self.line["outcome"] is None:
            if self.has_failed or any(map(_NO_RETURN, self.warnings)):
                return Result.MATCHED
            return Result.DIFFERED if is_warned else Result.WRONG
        if any(_CHANCE.search(warning) for warning in self.warnings):
            sizes = [sorted(map(len, each.values())) for each in (self.owned, self.foretold)]
            return Result.CHANCE if sizes[0] == sizes[1] else Result.DIFFERED
        if not self.foretold:  # nothing that could be wrong
            return Result.CHANCE
        if self.owned == self.foretold:
            return Result.WARNED if is_warned else Result.MATCHED
        return Result.DIFFERED if is_warned else Result.WRONG


def group_of(line: Mapping[str, Any]) -> GroupSpec:
    """Return the group of a round before the change."""
    source = snapshot_source(msgspec.convert(line["snapshot"], Snapshot))
    return read_group(source, line["group"]).data[0]


def replayed(family: str, line: Mapping[str, Any]) -> Round:
    """Run the dry run of a round."""
    source = snapshot_source(msgspec.convert(line["snapshot"], Snapshot))
    changes = msgspec.convert(line["options"], Changes)
    request = AssignRequest(Mode[line["mode"]], changes=changes)
    report = assign_group(source, line["group"], request)
    (run,) = report.data
    warnings = [warning for plan in run.plans for warning in plan.warnings]
    if not run.plans:  # static members, which restart without a rebalance
        (group,) = source.read([line["group"]]).image.groups.values()
        owned = {
            member.client_id or "": {
                (at.topic or "", at.partition) for at in member.assignment or ()
            }
            for member in group.members
        }
        return Round(family, line, owned, warnings, report.notes)
    last = run.plans[-1]
    if last.assignment is None:  # the leader fails: nobody owns anything
        nothing: dict[str, set[tuple[str, int]]] = {name: set() for name in line["outcome"] or ()}
        return Round(family, line, nothing, warnings, report.notes, has_failed=True)
    names = {member.member_id: member.client_id or "" for member in last.members}
    unsure = {
        member.client_id for plan in run.plans for member in plan.members if member.depends_on_id
    }
    foretold = {
        names[member_id]: set(owned)
        for member_id, owned in last.assignment.items()
        if names[member_id] not in unsure
    }
    return Round(family, line, foretold, warnings, report.notes)


def all_rounds() -> Iterator[Round]:
    """Replay all recorded rounds."""
    for family in dict.fromkeys(kind.family for kind in KINDS):
        if not path_of(family).exists():
            continue
        for line in read_rounds(path_of(family)):
            yield replayed(family, line)


def plays(path: Path = PLAYS) -> Iterator[Round]:
    """Replay the rounds of plays, of which none was left out because of its result.

    Those of the second play have odd client ids, too, and changes that `tests.broker.client.play`
    does not make. Their family is the play.
    """
    for line in read_rounds(path):
        yield replayed(line["play"], line)


def table(rounds: Sequence[Round], head: str) -> str:
    """Return the table of rounds by family."""
    rows = [f"| {head} | rounds | matched | warned | left to chance | differed, warned | wrong |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    families = list(dict.fromkeys(each.family for each in rounds))
    for name in (*families, "all together"):
        results = Counter(each.result for each in rounds if name in ("all together", each.family))
        matched = results[Result.MATCHED] + results[Result.WARNED]
        counts = (
            results.total(),
            matched,
            *(
                results[each]
                for each in (Result.WARNED, Result.CHANCE, Result.DIFFERED, Result.WRONG)
            ),
        )
        rows.append(f"| `{name}` | {' | '.join(map(str, counts))} |")
    return "\n".join(rows) + "\n"


def written(page: str, rounds: Sequence[Round], played: Sequence[Round]) -> str:
    """Return the page with the tables."""
    earlier = [
        each if each.family in _LATEST else replace(each, family="earlier ones") for each in played
    ]
    for mark, lines in zip(MARKS, (table(rounds, "members"), table(earlier, "play")), strict=True):
        before, after = page.split(mark)
        page = before + mark + lines + "\n" + re.sub(r"\A(\|.*\n)*\n*", "", after)
    return page


if __name__ == "__main__":
    if sys.argv[1:]:
        print(table(list(plays(Path(sys.argv[1]))), "play"))
    else:
        both = list(all_rounds()), list(plays())
        PAGE.write_text(written(PAGE.read_text("utf-8"), *both), "utf-8")
