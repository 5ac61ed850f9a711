from __future__ import annotations

from itertools import product

import pytest

from kgroup.model.group import Broker, Group, GroupState, GroupType, Member, MemberState
from kgroup.model.record import TransactionStatus
from kgroup.model.segment import SegmentStatus


def test_every_state_has_a_sentence() -> None:
    for kind in (GroupState, GroupType, MemberState, SegmentStatus, TransactionStatus):
        sentences = [member.sentence for member in kind]
        assert len(set(sentences)) == len(sentences)
        assert all(sentence.endswith(".") for sentence in sentences)


def test_sentences_of_zookeeper_groups_are_their_own() -> None:
    """There is no target assignment, and nothing that is committed to ZooKeeper expires."""
    for state, wrong in ((GroupState.RECONCILING, "target"), (GroupState.EMPTY, "expire")):
        assert wrong in state.sentence
        assert state.sentence_of(GroupType.CONSUMER) == state.sentence
        assert wrong not in state.sentence_of(GroupType.ZOOKEEPER)
        assert state.sentence_of(GroupType.ZOOKEEPER).endswith(".")
    assert GroupState.STABLE.sentence_of(GroupType.ZOOKEEPER) == GroupState.STABLE.sentence


def test_addresses_are_written_as_settings_take_them() -> None:
    """Kafka's `bootstrap.servers` wants IPv6 addresses in brackets (Utils.formatAddress)."""
    assert Broker(1, "kafka-1", 9092).label == "kafka-1:9092 (1)"
    assert Broker(1, "::1", 9092).address == "[::1]:9092"


def test_transitions_of_classic_groups_are_kafkas() -> None:
    """The inverse of `ClassicGroupState.validPreviousStates` of Kafka 4.3.1."""
    valid_previous = {
        "Empty": {"PreparingRebalance"},
        "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
        "CompletingRebalance": {"PreparingRebalance"},
        "Stable": {"CompletingRebalance"},
        "Dead": {"Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead"},
    }
    for before, after in product(GroupState, GroupState):
        if before in valid_previous.get(after, ()):
            assert before.to(after) is after
        else:
            with pytest.raises(ValueError, match=f"{before} to {after}"):
                before.to(after)


def test_no_group_has_a_state_that_its_type_has_not() -> None:
    """`ClassicGroupState`, `ConsumerGroupState` and their like of Kafka 4.3.1."""
    epochs = {"Empty", "Assigning", "Reconciling", "Stable", "Dead"}
    states = {
        GroupType.CLASSIC: {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"},
        GroupType.CONSUMER: epochs,
        GroupType.SHARE: {"Empty", "Stable", "Dead"},
        GroupType.STREAMS: epochs | {"NotReady"},
    }
    for type_, state in product(states, GroupState):
        if state in states[type_]:
            assert Group("g", type_, state).state is state
        else:
            with pytest.raises(ValueError, match=f"no {type_} group is {state}"):
                Group("g", type_, state)


def test_group_without_anything_has_no_topics() -> None:
    member = Member("m")
    assert Group("g", GroupType.CLASSIC, GroupState.STABLE, members=(member,)).topics == frozenset()
