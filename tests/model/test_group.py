from kgroup.model.group import (
    CLASSIC_TRANSITIONS,
    Group,
    GroupState,
    GroupType,
    Member,
    MemberState,
)
from kgroup.model.segment import SegmentStatus


def test_every_state_has_a_sentence() -> None:
    for kind in (GroupState, GroupType, MemberState, SegmentStatus):
        sentences = [member.sentence for member in kind]
        assert len(set(sentences)) == len(sentences)
        assert all(sentence.endswith(".") for sentence in sentences)


def test_sentences_of_zookeeper_groups_are_their_own() -> None:
    """There is no target assignment, and nothing that is committed to ZooKeeper expires."""
    for state, wrong in ((GroupState.RECONCILING, "target"), (GroupState.EMPTY, "expires")):
        assert wrong in state.sentence
        assert state.sentence_of(GroupType.CONSUMER) == state.sentence
        assert wrong not in state.sentence_of(GroupType.ZOOKEEPER)
        assert state.sentence_of(GroupType.ZOOKEEPER).endswith(".")
    assert GroupState.STABLE.sentence_of(GroupType.ZOOKEEPER) == GroupState.STABLE.sentence


def test_transitions_of_classic_groups_are_kafkas() -> None:
    """The inverse of `ClassicGroupState.validPreviousStates` of Kafka 4.3.1."""
    valid_previous = {
        "Empty": {"PreparingRebalance"},
        "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
        "CompletingRebalance": {"PreparingRebalance"},
        "Stable": {"CompletingRebalance"},
        "Dead": {"Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead"},
    }
    for state, following in CLASSIC_TRANSITIONS.items():
        assert {each.value for each in following} == {
            after for after, before in valid_previous.items() if state.value in before
        }


def test_group_without_anything_has_no_topics() -> None:
    member = Member("m")
    assert Group("g", GroupType.CLASSIC, GroupState.STABLE, members=(member,)).topics == frozenset()
