"""The page of `kgroup check`: a table of findings, worst first, with the commands to run next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from rich.cells import cell_len

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.operation.check.rule import Basis, Consequence, EvidenceRecord, Finding, Rule, Severity
from kgroup.operation.printed_command import kgroup_command
from kgroup.render.check import findings_page
from kgroup.render.form import page_text
from tests.examples import examples

STYLES = re.compile(r"\x1b\[[0-9;]*m")


class AnyFindings:
    """Random findings with long ids.

    Attributes:
        findings: the findings.
        names: ids, class names and addresses in them.
        evidence: ids that only their evidence has.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.names: set[str] = set()
        self.evidence: set[str] = set()
        self.findings = [self._finding() for _ in range(random.randint(1, 12))]

    def _name(self) -> str:
        letters = self._random.choices("abcdefgh0123456789-._:/=", k=self._random.randint(18, 58))
        return f"x{''.join(letters)}y"

    def _finding(self) -> Finding:
        random = self._random
        code, group_id = random.choice(list(Rule)), random.choice((self._name(), "billing", None))
        server, config, who, host, member_id = (self._name() for _ in range(5))
        options = ("-b", server, "--command-config", f"/etc/a b/{config}")
        commands = [
            kgroup_command("offsets reset", [group_id or ""], (*options, way))
            for way in random.sample(("--to-earliest", "--to-latest"), random.randint(0, 2))
        ]
        self.names |= {
            who,
            host,
            *filter(None, [group_id]),
            *((server, config) if commands else ()),
        }
        self.evidence.add(member_id)
        return Finding(
            code,
            random.choice(list(Severity)),
            random.choice(list(Basis)),
            group_id,
            f"{who} at {host} has {random.randint(1, 99)} partitions. " * random.randint(1, 3),
            code.advice,
            member_id=member_id,
            commands=tuple(commands),
        )


def lines_of(
    findings: Sequence[Finding],
    groups: Sequence[str] = (),
    *,
    terminal: bool = False,
    explain: bool = False,
) -> list[str]:
    parts = findings_page(findings, groups, explain=explain)
    return STYLES.sub("", "".join(page_text(parts, terminal=terminal))).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("seed", range(examples(8)))
def test_a_terminal_breaks_no_name_and_no_command(
    seed: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    explain = seed % 2 == 1
    shown = AnyFindings(Random(seed))
    lines = lines_of(shown.findings, terminal=True, explain=explain)
    text = "\n".join(lines)
    for line in lines:
        assert cell_len(line) <= width or len(line.removesuffix(" \\").split()) <= 3, text
        assert not re.search(r" (-b|--command-config) \\$", line), text
    for name in shown.names | (shown.evidence if explain else set()):
        assert any(name in line for line in lines), text
    pasted = re.sub(r" +", " ", text.replace("\\\n", ""))
    for finding in shown.findings:
        for command in finding.commands:
            assert f"\n {command}" in pasted, text


@pytest.mark.parametrize("width", [None, 80, 200])
def test_a_row_for_each_finding_worst_first(
    width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = AnyFindings(Random(5)).findings
    lines = lines_of(shown, terminal=width is not None)
    heads = [line.split()[:2] for line in lines[1:] if not line.startswith(" ")]
    assert sorted(heads) == sorted([f.severity, f.group_id or "(cluster)"] for f in shown)
    ranks = [Severity(severity).rank for severity, _ in heads]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 3


def test_a_pipe_has_each_command_in_a_line_below_its_row() -> None:
    finding = AnyFindings(Random(0)).findings[0]
    finding = replace(finding, commands=("kgroup one 'a b' " + "c" * 300, "kgroup two"))
    head, row, *commands = lines_of([finding])
    assert head.split() == ["severity", "group_id", "code", "reason"]
    assert row.endswith(f"  {finding.reason.strip()}")
    assert [line.strip() for line in commands] == [*finding.commands]


def test_the_commands_of_several_findings_in_a_row_stand_below_the_last() -> None:
    finding = replace(AnyFindings(Random(0)).findings[0], commands=("kgroup one", "kgroup two"))
    others = [replace(finding, partition=number) for number in range(4)]
    others[2] = replace(finding, commands=("kgroup one",))
    lines = [line.split()[1] for line in lines_of(others)[1:]]
    group_id = finding.group_id or "(cluster)"
    assert lines == [*[group_id] * 2, "one", "two", group_id, "one", group_id, "one", "two"]


def test_many_findings_of_one_code_are_abridged_unless_explained() -> None:
    finding = replace(AnyFindings(Random(0)).findings[0], group_id="g", member_id=None)
    every = [
        replace(finding, topic="orders", partition=number, commands=(f"kgroup {number}",))
        for number in range(40)
    ]
    rows = lines_of(every)[1:]
    assert [line.strip() for line in rows[1:6:2]] == ["kgroup 0", "kgroup 1", "kgroup 2"]
    names = ", ".join(f"orders-{number}" for number in range(3, 13))
    text = f"37 more findings like these: {names} and 27 more; --explain shows all."
    assert rows[6].endswith(f"  {text}")
    assert len(rows) == 7, "commands are of single partitions"
    assert len(lines_of([*every[:5], replace(finding, group_id="h")])[1:]) == 11
    same = [replace(each, commands=("kgroup all",)) for each in every]
    assert [line.strip() for line in lines_of(same)[5:]] == ["kgroup all"]
    assert sum("kgroup " in line for line in lines_of(every, explain=True)) == 40
    follows = [
        Consequence(Rule.OLD_COMMIT, Severity.WARNING, "Old.", "orders", number, None, None)
        for number in range(40)
    ]
    lines = lines_of([replace(finding, commands=(), consequences=tuple(follows))])
    assert [line.split()[0] for line in lines[1:]] == [finding.severity, *["follows"] * 4]


def test_consequences_stand_below_their_cause_and_records_take_explain() -> None:
    records = tuple(EvidenceRecord(3, n, 1_700_000_000_000 + n, f"it left {n}") for n in (7, 9))
    storm = Consequence(
        Rule.REBALANCE_STORM, Severity.WARNING, "9 rebalances.", None, None, None, None
    )
    first, other = (
        replace(finding, severity=Severity.WARNING, commands=("kgroup one",))
        for finding in AnyFindings(Random(0)).findings[:2]
    )
    cause = replace(
        first,
        group_id="billing",
        evidence=records,
        evidence_count=30,
        consequences=(storm, replace(storm, reason="8 rebalances.")),
    )
    lines = lines_of([cause, other])
    assert [line.split()[0] for line in lines[1:]] == [
        *("warning", "follows", "follows", "warning", "kgroup")
    ]
    assert re.split(r"  +", lines[2]) == ["follows", "billing", "rebalance-storm", "9 rebalances."]
    assert "it left" not in "".join(lines)
    explained = lines_of([cause], explain=True)
    (first_record,) = [line for line in explained if line.endswith("  it left 7")]
    assert re.split(r"  +", first_record)[-3:] == ["3", "7", "it left 7"]
    assert any(line.endswith("  28 earlier records are not shown") for line in explained)


def test_groups_without_findings_are_a_count() -> None:
    finding = replace(AnyFindings(Random(0)).findings[0], group_id="b")
    assert lines_of([finding], ["a", "b", "c"])[-2:] == ["", "2 groups without findings"]
    assert lines_of([finding], ["a", "b"])[-1] == "1 group without findings"
    assert "without" not in "".join(lines_of([finding], ["b"]))
    assert lines_of([], ["a", "b"]) == ["2 groups without findings"]
    assert lines_of([], ["a"]) == ["Group a: no findings"]
    assert lines_of([]) == []
    for error, is_partial in (
        (Problem(ProblemKind.SILENT, "no answer", broker=1), True),
        (Problem(ProblemKind.DENIED, "not told", group_id="b"), True),
        (Problem(ProblemKind.NOT_FOUND, "no such group", group_id="c"), False),
    ):
        unread = findings_page([], ["a", "b"], errors=[error], is_new=True)
        assert "".join(page_text(unread)) == (
            f"2 groups without new findings{', as far as it could be read' * is_partial}\n"
        )


def test_severities_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    findings = [replace(f, code=Rule.BEFORE_START) for f in AnyFindings(Random(5)).findings]
    text = "".join(page_text(findings_page(findings), terminal=True))
    assert "before-start\n" in text, "a mark elsewhere, which is red"
    for severity, color in (("error", 31), ("warning", 33), ("info", 2)):
        assert f"\n\x1b[{color}m{severity}\x1b[0m " in text


def test_explain_says_what_each_code_means_once() -> None:
    findings = AnyFindings(Random(5)).findings
    text = "\n".join(lines_of([*findings, *findings], explain=True))
    for code in {finding.code for finding in findings}:
        assert text.count(code.sentence) == 1
    assert not any(finding.advice in "\n".join(lines_of(findings)) for finding in findings)
