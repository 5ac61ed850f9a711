"""Dry runs of groups whose next rebalances were recorded: none is wrong without a warning."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.client.lesser_known import LESSER_KNOWN
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import Software
from kgroup.assignor.strategy import as_sent
from kgroup.model.client_library import KAFKA_NODE
from kgroup.operation.assign import outcome
from kgroup.operation.assign.what_if import Changes, changed
from kgroup.simulation.classic.group import winner
from tests.broker.client.program import WITH_LIBRDKAFKA
from tests.operation.recorded_rounds import (
    PAGE,
    Result,
    Round,
    all_rounds,
    group_of,
    plays,
    replayed,
    written,
)


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    return list(all_rounds())


def test_no_round_differs_without_a_warning(rounds: list[Round]) -> None:
    wrong = [each for each in rounds if each.result is Result.WRONG]
    assert [each.story for each in wrong if not each.is_vote_hidden] == []


def test_votes_that_nothing_shows_are_rare_where_members_list_different_strategies(
    rounds: list[Round],
) -> None:
    voting = [each for each in rounds if len(set(each.line.get("lists", {}).values())) > 1]
    hidden = [each for each in voting if each.result is Result.WRONG]
    assert len(voting) >= 50
    assert len(hidden) <= 0.1 * len(voting)


def test_recorded_lists_of_members_are_not_ruled_out(rounds: list[Round]) -> None:
    """The vote is counted with the lists, as the coordinator of the recorded version does."""
    changes_seen = 0
    for each in rounds:
        changes = msgspec.convert(each.line["options"], Changes)
        lists = {name: tuple(t.split(",")) for name, t in each.line.get("lists", {}).items()}
        if not lists:
            continue
        added = [replace(new, strategies=lists[new.client_id or ""]) for new in changes.add]
        here = [lists[name] for name in each.line["outcome"]]
        common = set(here[0]).intersection(*here)
        right = winner((next(x for x in own if x in common) for own in here), (4, 3))
        before = group_of(each.line)
        after = changed(before, replace(changes, add=added))
        assert after.may_win is None or right in after.may_win, each.story
        assert not added or after.may_win is not None
        changes_seen += right != before.strategy
    assert changes_seen


@pytest.fixture(scope="module")
def played() -> list[Round]:
    return list(plays())


def test_few_rounds_of_plays_differ_without_a_warning(played: list[Round]) -> None:
    """Those that do: docs/assign.md."""
    wrong = [each.story for each in played if each.result is Result.WRONG]
    assert len(played) >= 3400
    assert len(wrong) <= 11, wrong


def test_user_data_that_kafka_python_3_does_not_read_claim_nothing(played: list[Round]) -> None:
    """Members of 2.3 and 3.0 are in one group, while an application is upgraded."""
    kind = "kafka-python@2.3.3 sticky + kafka-python sticky"
    results = [each.result for each in played if each.line["kind"].startswith(kind)]
    assert len(results) >= 6
    assert Result.WRONG not in results


def test_members_of_sarama_are_known_by_what_they_do_not_remember(played: list[Round]) -> None:
    """The leader is of aiokafka, and its assignments have no user data for them to return.

    Groups that do not rest, because a topic was deleted, do not count.
    """
    kind = "aiokafka sticky + sarama sticky, different"
    results = [
        each.result
        for each in played
        if each.line["kind"].startswith(kind) and each.line["outcome"] is not None
    ]
    assert len(results) >= 6
    assert not {Result.WRONG, Result.DIFFERED}.intersection(results)


def test_members_of_franz_go_are_known_by_what_they_forget(played: list[Round]) -> None:
    """Java's would claim what they had; the leader is of aiokafka."""
    kind = "franz-go@1.18.0 sticky + aiokafka sticky, pattern, 4.3.1"
    results = [each.result for each in played if each.line["kind"] == kind]
    assert len(results) >= 6
    assert set(results) <= {Result.MATCHED, Result.CHANCE}


def test_a_member_that_joins_a_group_does_not_lead_it(played: list[Round]) -> None:
    """Who leads after the leader of librdkafka is unknown, but not the same member again."""
    kind = "kafka-python cooperative-sticky + librdkafka cooperative-sticky, alike, 4.3.1"
    (bounce,) = (
        each
        for each in played
        if (each.line["kind"], each.line["change"], each.family) == (kind, "bounce", "sixth play")
    )
    assert bounce.result is Result.WARNED


def test_versions_that_would_not_have_assigned_what_is_owned_are_no_doubt(
    played: list[Round],
) -> None:
    """kafka-python 3 fails with such subscriptions, so the leader is of an older one."""
    kind = "aiokafka roundrobin, different, 3.9.2"
    joins = [
        each
        for each in played
        if (each.family, each.line["kind"], each.line["change"]) == ("seventh play", kind, "join")
    ]
    assert [each.result for each in joins] == [Result.MATCHED] * 4


def test_leaders_that_cannot_read_members_of_kafka_go_fail(played: list[Round]) -> None:
    kind = "kafka-go range + kafka-python range, alike, odd ids, 3.9.2"
    failed = [each for each in played if each.line["kind"] == kind and each.has_failed]
    assert [each.line["outcome"] for each in failed] == [None, None]


def results_of(played: list[Round], kind: str, change: str) -> list[Result]:
    """Return the results of rounds whose kind begins so."""
    return [
        each.result
        for each in played
        if each.line["kind"].startswith(kind) and each.line["change"] == change
    ]


def test_three_members_of_java_restart_in_several_rebalances(played: list[Round]) -> None:
    """They leave one after another, and the leader, of librdkafka, rejoins in between."""
    kind = "kafka-clients@3.9.2 cooperative-sticky + kafka-clients cooperative-sticky + librdkafka"
    assert results_of(played, kind, "restart-three") == [Result.DIFFERED] * 2


def test_members_of_the_classic_protocol_notice_new_topics_later(played: list[Round]) -> None:
    """The coordinator assigned the new topic to those with a regular expression, and again."""
    kind = "librdkafka consumer + kafka-clients consumer:uniform + kafka-clients range, pattern"
    assert results_of(played, kind, "add-topic") == [Result.MATCHED, Result.DIFFERED]


def test_members_of_platformatic_fail_without_one_of_their_topics(played: list[Round]) -> None:
    kind = "@platformatic/kafka@1.31.0 roundrobin, different, static, 4.3.1"
    dropped = [
        each for each in played if each.line["kind"] == kind and each.line["change"] == "drop-topic"
    ]
    assert [each.line["outcome"] is None for each in dropped] == [False, True]
    assert [each.result for each in dropped] == [Result.MATCHED] * 2


def test_deleted_topics_count_where_the_result_is_random(played: list[Round]) -> None:
    """A leader of franz-go knows a topic that no longer exists, and deals it in either order."""
    kind = "franz-go sticky + sarama@1.47.0 sticky, different"
    (left,) = (
        each
        for each in played
        if each.line["kind"].startswith(kind) and each.line["change"] == "leave-two"
    )
    assert left.result is Result.CHANCE


def test_the_last_of_two_restarted_members_is_led_by_the_first(played: list[Round]) -> None:
    """One of Sarama 1.47, whose subscriptions kafka-go can read, leads before."""
    kind = "kafka-go roundrobin + sarama@1.47.0 roundrobin, alike, 3.9.2"
    (bounce,) = (
        each
        for each in played
        if (each.line["kind"], each.line["change"]) == (kind, "bounce")
        and len(each.line["outcome"]) == 2
    )
    assert bounce.result is Result.WARNED


def test_a_round_counts_as_matched_only_if_the_dry_run_names_an_owner(rounds: list[Round]) -> None:
    nothing = [each.result for each in rounds if not each.foretold]
    assert nothing
    assert set(nothing) == {Result.CHANCE}


def test_a_round_is_wrong_if_the_assignor_fails_in_the_dry_run_only(
    rounds: list[Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spec: GroupSpec) -> Assignment:
        raise AssignorError("KeyError", spec.strategy)

    line = next(each.line for each in rounds if each.result is Result.MATCHED)
    monkeypatch.setattr(outcome, "assign", fail)
    assert replayed("kafka-clients", line).result is Result.WRONG


def test_nearly_all_rounds_are_foretold(rounds: list[Round]) -> None:
    decided = [each for each in rounds if each.result is not Result.CHANCE]
    matched = [each for each in decided if each.result in (Result.MATCHED, Result.WARNED)]
    assert len(matched) >= 0.97 * len(decided)


def test_warnings_are_rare_where_the_dry_run_is_right(rounds: list[Round]) -> None:
    matched = [each for each in rounds if each.result in (Result.MATCHED, Result.WARNED)]
    warned = [each.story for each in matched if each.result is Result.WARNED]
    assert len(warned) <= 0.1 * len(matched), warned


def test_the_next_leader_is_the_first_of_the_members_that_stay(rounds: list[Round]) -> None:
    """The snapshot of the next round of the group has the leader after members have left."""
    foretold, found = [], []
    for now, later in pairwise(rounds):
        changes = msgspec.convert(now.line["options"], Changes)
        if not changes.remove or now.line["group"] != later.line["group"]:
            continue
        before = group_of(now.line)
        after = changed(before, changes)
        if before.leader is not None and after.leader_id != before.leader_id:
            foretold.append(after.leader_id)
            found.append(group_of(later.line).leader_id)
    assert foretold == found
    assert len(found) >= 50


def test_no_library_is_ruled_out_that_a_group_has(rounds: list[Round]) -> None:
    ruled_out = 0
    for each in rounds:
        spec = group_of(each.line)
        if spec.leader is None or spec.leader.may_be is None:
            continue
        kind = each.line["kind"]
        for name in WITH_LIBRDKAFKA:
            kind = kind.replace(name, "librdkafka")
        members = kind.partition(", ")[0].split(" + ")
        assert spec.leader.may_be & {member.split()[0] for member in members}, each.line["kind"]
        ruled_out += each.family == KAFKA_NODE and "ruby-kafka" not in spec.leader.may_be
    assert ruled_out


def test_leaders_of_kafka_node_are_imitated(rounds: list[Round]) -> None:
    """Members of the snapshots own what such a leader has assigned, unless topics changed since."""
    same, several = 0, 0
    for each in rounds:
        spec = group_of(each.line)
        if each.family != KAFKA_NODE or spec.strategy != "roundrobin" or len(spec.members) < 2:
            continue
        in_order = replace(spec, client=Software("sarama", "1.61.1"))  # topics as they were sent
        given = LESSER_KNOWN[KAFKA_NODE](as_sent(in_order), spec.topics)
        several += 1
        same += all(given[m.member_id] == [*(m.owned or ())] for m in spec.members)
    assert same >= 0.7 * several > 0


def test_no_rebalance_is_foretold_where_members_never_look(rounds: list[Round]) -> None:
    unnoticed = {
        each.family: each
        for each in rounds
        if (each.family, each.line["change"])
        in (("kafkajs", "add-topic"), ("@platformatic/kafka", "grow"))
    }
    assert len(unnoticed) == 2
    for each in unnoticed.values():
        assert each.result is Result.MATCHED, each.story
        assert [w for w in each.warnings if w.startswith("No rebalance follows: members of ")]


@pytest.mark.parametrize("library", WITH_LIBRDKAFKA)
def test_members_that_contain_librdkafka_are_recognized_as_it(
    library: str, rounds: list[Round]
) -> None:
    groups = [group_of(each.line) for each in rounds if library in each.line["kind"]]
    assert len(groups) >= 16
    for group in groups:
        assert {member.client and member.client.name for member in group.members} == {"librdkafka"}
        assert not any(member.is_client_inferred for member in group.members)


def test_every_library_and_every_change_is_among_the_rounds(rounds: list[Round]) -> None:
    assert len(rounds) >= 300
    assert {each.line["change"] for each in rounds} >= {
        *("join", "join-two", "leave", "leave-two", "leave-leader", "restart", "restart-three"),
        *("bounce", "grow", "add-topic", "drop-topic"),
    }


def test_the_tables_of_rounds_are_those_of_the_page(
    rounds: list[Round], played: list[Round]
) -> None:
    text = PAGE.read_text("utf-8")
    assert written(text, rounds, played) == text, "run: python -m tests.operation.recorded_rounds"
