"""The vote on the strategy of a classic group: what earlier generations show of it.

The votes of the cases are counted by hand, and those of random groups by the coordinator's rule
(`kgroup.simulation.classic.group`), which is compared with Kafka's brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import as_sent
from kgroup.errors import UsageError
from kgroup.model.group import (
    AssignedPartition,
    Group,
    GroupType,
    Member,
    PastGeneration,
    Subscription,
)
from kgroup.operation.assign.client import assumptions, software
from kgroup.operation.assign.dry_run import settled
from kgroup.operation.assign.outcome import dry_run
from kgroup.operation.assign.vote import with_keeping
from kgroup.operation.assign.what_if import AddedMembers, Changes, changed
from kgroup.simulation.classic.group import winner
from tests.examples import examples

JAVA = software("kafka-clients")
MAY_CHANGE = "The strategy may change: "


def group(
    strategy: str, names: str, *past: tuple[str, str], library: str = "kafka-clients", **more: Any
) -> GroupSpec:
    """Return members with a letter each, and earlier generations: strategy and members."""
    members = tuple(
        MemberSpec(name, ("t", "u"), client=software(library), owned=(("t", at),))
        for at, name in enumerate(names)
    )
    return GroupSpec(
        strategy,
        members,
        {"t": TopicMetadata(5), "u": TopicMetadata(3)},
        has_votes=False,
        past_generations=tuple(
            PastGeneration(len(past) - at, won, tuple(who)) for at, (won, who) in enumerate(past)
        ),
        **more,
    )


def after(spec: GroupSpec, **changes: Any) -> GroupSpec:
    return changed(spec, Changes(**changes))


def votes(spec: GroupSpec) -> list[str]:
    """Return the warnings about the vote."""
    return [text for text in dry_run(spec).warnings if text.startswith(MAY_CHANGE)]


def is_noted(spec: GroupSpec) -> bool:
    return any("members vote on it again" in note for note in assumptions(spec))


@pytest.mark.parametrize(("was", "strategy"), [("range", "range"), ("sticky", "sticky")])
def test_the_same_members_choose_the_same_strategy_again(was: str, strategy: str) -> None:
    spec = after(group("range", "abc", (was, "ab"), ("range", "abcd")), remove=["c"])
    assert (spec.strategy, votes(spec), is_noted(spec)) == (strategy, [], False)


def test_a_member_that_restarts_lists_what_it_listed() -> None:
    spec = after(group("sticky", "abc", ("range", "ab")), restart=["c"])
    assert (spec.strategy, votes(spec), is_noted(spec)) == ("sticky", [], False)


def test_nothing_shows_a_vote_if_all_generations_chose_the_same() -> None:
    spec = after(group("roundrobin", "abc", ("roundrobin", "bc"), ("roundrobin", "c")), remove="b")
    assert (spec.strategy, votes(spec), is_noted(spec)) == ("roundrobin", [], True)


@pytest.mark.parametrize(
    ("library", "strategy"),
    [
        ("librdkafka", "cooperative-sticky"),  # refuses a list with an eager one
        ("kafkajs", "RoundRobinAssigner"),  # has no other one
    ],
)
def test_a_library_may_leave_no_choice(library: str, strategy: str) -> None:
    spec = after(group(strategy, "abc", library=library), remove=["a"])
    assert (spec.strategy, votes(spec), is_noted(spec)) == (strategy, [], False)
    unsure = replace(
        group(strategy, "abc", library=library),
        members=tuple(replace(m, is_client_inferred=True) for m in spec.members),
    )
    assert is_noted(after(unsure, remove=["b"]))


def test_votes_that_follow_from_earlier_ones() -> None:
    """`a` and `b` alone chose range, so their lists begin with it; `c` lists sticky, too."""
    past = (("range", "a"), ("sticky", "acd"), ("range", "b"))
    sure = after(group("range", "abc", *past), remove=["c"])
    assert (sure.may_win, votes(sure), is_noted(sure)) == (("range",), [], False)
    unsure = after(group("range", "abc", *past[:2]), remove=["c"])
    assert unsure.may_win == ("range", "sticky")
    assert votes(unsure)


def test_no_warning_if_the_other_strategy_assigns_the_same() -> None:
    spec = group("roundrobin", "abc", ("range", "bd"), ("range", "cd"))
    assert votes(after(spec, remove=["a"]))
    one = {"t": TopicMetadata(2)}
    members = tuple(replace(member, topics=("t",)) for member in spec.members)
    assert not votes(after(replace(spec, topics=one, members=members), remove=["a"]))


def test_a_new_strategy_knows_nothing_of_what_members_own() -> None:
    spec = after(group("range", "abc", ("sticky", "ab")), remove=["c"])
    assert [sent.remembered for sent in as_sent(spec)] == [None, None]
    stays = after(group("sticky", "abc", ("sticky", "ab")), remove=["c"])
    assert [sent.remembered for sent in as_sent(stays)] == [(("t", 0),), (("t", 1),)]


@pytest.mark.parametrize(
    ("library", "other"), [("kafka-clients", "team-assignor"), ("librdkafka", "sticky")]
)
def test_a_strategy_that_is_not_imitated_is_named_only(library: str, other: str) -> None:
    past = ((other, "abd"),)
    for spec in (
        after(group("range", "abc", *past, library=library), remove=["c"]),
        after(group("range", "abc", (other, "ab"), library=library), remove=["c"]),
    ):
        assert spec.strategy == "range"
        (warning,) = votes(spec)
        assert f"{other}, which is not imitated, may win in place of range" in warning


def test_lists_of_many_strategies_are_not_tried() -> None:
    """There are as many as orders of them."""
    past = [(f"s{number}", "abd") for number in range(7)]
    spec = after(group("range", "abc", *past), remove=["c"])
    assert (spec.strategy, spec.may_win) == ("range", None)
    assert votes(spec) or is_noted(spec)


def test_whoever_may_give_up_everything_may_list_other_strategies() -> None:
    spec = group("cooperative-sticky", "abc", ("range", "cd"))
    keeping = replace(spec, members=tuple(replace(each, keeps=True) for each in spec.members))
    assert after(keeping, remove=["b"]).may_win == ("cooperative-sticky",)
    unsure = tuple(replace(each, is_keeping_open=True) for each in keeping.members)
    assert after(replace(spec, members=unsure), remove=["b"]).may_win != ("cooperative-sticky",)


def test_who_joins_lists_what_another_member_lists() -> None:
    """`a` and `b` alone chose different strategies, so the new member decides."""
    spec = group("range", "ab", ("sticky", "a"), ("range", "b"))
    assert votes(after(spec, add=[AddedMembers()]))
    alike = after(group("range", "ab", ("range", "b")), add=[AddedMembers()])
    assert (votes(alike), is_noted(alike)) == ([], True)


def test_members_that_a_generation_had_alone_did_not_prefer_the_default_list() -> None:
    """All with Java's default strategies in the other order would have chosen the other one."""
    spec = group("range", "abcd")
    assert votes(after(spec, remove=["d"]))
    past = (PastGeneration(1, "range", ("a", "b")),)
    assert not votes(after(replace(spec, past_generations=past), remove=["d"]))
    assert votes(after(replace(spec, past_generations=past), remove=["b"]))


def chosen(lists: Mapping[str, Sequence[str]], who: Sequence[str]) -> str:
    """Return the choice of members as the coordinator of 4.3 makes it."""
    common = set(lists[who[0]]).intersection(*(lists[name] for name in who))
    return winner((next(x for x in lists[name] if x in common) for name in who), (4, 3))


@pytest.mark.parametrize("seed", range(examples(30)))
def test_the_choice_is_never_ruled_out(seed: int) -> None:
    """Members of a random group join and leave, all of which list `range`."""
    random = Random(seed)
    known = random.sample(("roundrobin", "sticky", "cooperative-sticky"), random.choice((1, 1, 2)))
    lists: dict[str, Sequence[str]] = {}
    here: list[str] = []
    past: list[PastGeneration] = []
    for number in range(random.randint(3, 14)):
        if len(here) < 3 or (len(here) < 8 and random.random() < 0.6):
            here.append(f"m{number}")
            also = random.sample(known, random.randint(0, len(known)))
            lists[here[-1]] = random.sample(["range", *also], 1 + len(also))
        else:
            here.remove(random.choice(here))
        past.insert(0, PastGeneration(number, chosen(lists, here), tuple(sorted(here))))
    now, *earlier = past
    members = tuple(MemberSpec(name, ("t",), client=software("franz-go")) for name in here)
    spec = GroupSpec(
        now.assignor,
        members,
        {"t": TopicMetadata(7)},
        has_votes=False,
        past_generations=tuple(each for each in earlier if set(each.members) & {*here}),
    )
    left = after(spec, remove=[random.choice(here)])
    right = chosen(lists, [member.member_id for member in left.members])
    if left.may_win is None:  # nothing shows that others are listed
        assert left.strategy == now.assignor
    else:
        assert right in left.may_win
        assert left.strategy == left.may_win[0]


def joined(name: str, claimed: int, generation: int | None, version: int = 3) -> Member:
    """Return a member; Java's before 3.5 sends its generation only in the user data."""
    own = tuple(AssignedPartition(None, "t", at) for at in range(claimed))
    last = -1 if generation is None else generation
    return Member(
        name,
        subscription=Subscription(
            ("t",),
            owned=own,
            generation_id=generation if version > 1 else None,
            user_data={"generation": last},
            version=version,
        ),
        assignment=(AssignedPartition(None, "t", 0),),
        client_library="kafka-clients",
    )


@pytest.mark.parametrize(
    ("past", "keeps"),
    [
        ((), {"keeps": True, "gives": True, "new": True}),
        (  # it may not have received what it was assigned
            (PastGeneration(3, "cooperative-sticky", ("gives", "keeps")),),
            {"keeps": True, "gives": True, "new": True},
        ),
        (
            (
                PastGeneration(3, "cooperative-sticky", ("gives",), unclaimed=("gives",)),
                PastGeneration(2, "cooperative-sticky", ("gives",)),
            ),
            {"keeps": True, "gives": False, "new": None},
        ),
        (  # it had nothing to claim
            (PastGeneration(3, "cooperative-sticky", ("gives", "keeps"), idle=("gives",)),),
            {"keeps": True, "gives": True, "new": True},
        ),
        (
            (PastGeneration(2, "range", ("gives", "new")),),
            {"keeps": True, "gives": False, "new": False},
        ),
    ],
)
def test_who_claims_nothing_lists_an_eager_strategy_too(
    past: tuple[PastGeneration, ...], keeps: Mapping[str, bool | None]
) -> None:
    """Java's `ConsumerCoordinator` is eager if one of its assignors is."""
    for version in (1, 3):
        sent = (
            joined("keeps", 1, 3, version),
            joined("gives", 0, 3, version),
            joined("new", 0, None, version),
        )
        found = keeping(sent, past)
        assert {member.member_id: member.keeps for member in found} == keeps


def keeping(sent: Sequence[Member], past: tuple[PastGeneration, ...]) -> tuple[MemberSpec, ...]:
    """Return members of a cooperative group that may use Java's library."""
    group = Group("g", GroupType.CLASSIC, None, "consumer", "cooperative-sticky")
    group = replace(group, members=tuple(sent), past_generations=past)
    specs = tuple(
        MemberSpec(
            each.member_id,
            ("t",),
            client=JAVA if at else None,  # of which only the leader may be known
            may_be=frozenset({"kafka-clients", "sarama"}),
            owned=(("t", at),),
        )
        for at, each in enumerate(sent)
    )
    return with_keeping(group, specs)


def test_members_that_have_never_rejoined_may_give_up_everything() -> None:
    """Nobody could claim anything so far, as all joined in the same generation."""
    spec = group("cooperative-sticky", "abc", library="kafka-clients")
    own = zip(spec.members, ((0, 1), (2, 3), (4,)), strict=True)
    members = tuple(replace(m, owned=tuple(("t", at) for at in numbers)) for m, numbers in own)
    first = after(replace(spec, members=members), remove=["a"])
    assert any("none has rejoined yet" in note for note in assumptions(first))
    seen = tuple(replace(member, keeps=True) for member in members)
    later = after(replace(spec, members=seen), remove=["a"])
    assert not any("none has rejoined yet" in note for note in assumptions(later))


def test_members_that_give_up_everything_claim_nothing() -> None:
    spec = group("cooperative-sticky", "abc")
    first, *others = spec.members
    eager = replace(spec, members=tuple(replace(each, keeps=False) for each in spec.members))
    assert (spec.is_cooperative, eager.is_cooperative) == (True, False)
    assert {sent.owned for sent in as_sent(eager)} == {()}
    joined = after(eager, add=[AddedMembers()])
    assert [member.keeps for member in joined.members] == [False] * 4
    own = [("t", at) for at in range(5)] + [("u", at) for at in range(3)]
    all_owned = [
        replace(member, owned=tuple(own[at : at + 3]))
        for member, at in zip(spec.members, (0, 3, 6), strict=True)
    ]
    for keeps, rebalances in ((True, 2), (False, 1)):  # to revoke, and then to assign
        given = replace(spec, members=tuple(replace(m, keeps=keeps) for m in all_owned))
        assert len(settled(after(given, add=[AddedMembers()])).plans) == rebalances
    assert not votes(after(eager, remove=["a"]))
    assert votes(after(replace(eager, members=(first, *eager.members[1:])), remove=["a"]))
    assert not votes(after(spec, remove=["a"]))
    mixed = replace(spec, members=(replace(first, keeps=False), *others))
    assert [bool(sent.owned) for sent in as_sent(mixed)] == [False, True, True]
    unsure = replace(first, is_keeping_open=True)
    (warning,) = dry_run(replace(spec, members=(unsure, *others))).warnings
    assert warning.endswith("it is unknown whether a does.")


def test_a_new_member_with_the_present_strategy_alone_leaves_no_choice() -> None:
    """Without its list, two others decide: `a` and `b` alone chose different strategies."""
    spec = group("range", "ab", ("sticky", "a"), ("range", "b"))
    assert votes(after(spec, add=[AddedMembers()]))
    sure = after(spec, add=[AddedMembers(strategies=("range",))])
    assert (sure.may_win, votes(sure), is_noted(sure)) == (("range",), [], False)


def test_new_votes_for_the_present_strategy_change_nothing() -> None:
    """However many members there are, and whatever else they list."""
    spec = group("range", "abcdefghijklmnopqrstuvwxyz")
    for others in (("sticky",), ("sticky", "roundrobin", "cooperative-sticky")):
        voted = after(spec, add=[AddedMembers(3, strategies=("range", *others))])
        assert (voted.may_win, votes(voted)) == (("range",), [])
    assert after(spec, add=[AddedMembers(strategies=("sticky", "range"))]).may_win == (
        "range",
        "sticky",
    )


def test_a_new_member_decides_between_others() -> None:
    """`a` and `b` list both strategies, each the one first with which it was alone."""
    past = (("sticky", "abc"), ("range", "b"), ("sticky", "a"))
    spec = group("range", "ab", *past)
    for first, second in (("range", "sticky"), ("sticky", "range")):
        voted = after(spec, add=[AddedMembers(2, strategies=(first, second))])
        assert (voted.strategy, voted.may_win) == (first, (first,))


def test_whom_the_coordinator_refuses() -> None:
    """`a` lists sticky, too; whether `b` and `c` do is unknown."""
    spec = group("range", "abc", ("sticky", "ab"), library="franz-go")
    open_ = after(spec, add=[AddedMembers(strategies=("sticky",))])
    assert (open_.strategy, open_.may_win, open_.may_be_refused) == ("sticky", ("sticky",), True)
    assert any("INCONSISTENT_GROUP_PROTOCOL" in text for text in votes(open_))
    known = after(spec, remove=["c"], add=[AddedMembers(strategies=("sticky",))])
    assert (known.may_win, known.may_be_refused, votes(known)) == (("sticky",), False, [])
    with pytest.raises(UsageError, match=r"new-1 lists only sticky\. Then, polls return"):
        after(spec, add=[AddedMembers(strategies=(name,)) for name in ("sticky", "range")])
    librdkafka = group("cooperative-sticky", "ab", library="librdkafka")
    with pytest.raises(UsageError, match="can list only cooperative-sticky"):
        after(librdkafka, add=[AddedMembers(library="kafka-python")])
    java = group("cooperative-sticky", "ab")
    java = replace(java, members=tuple(replace(each, keeps=True) for each in java.members))
    with pytest.raises(UsageError, match="a keeps its partitions in rebalances, so it lists only"):
        after(java, add=[AddedMembers(library="kafka-go")])
    chosen_by_hand = replace(group("range", "ab"), has_votes=None)
    for remove in ([], ["a", "b"]):
        with pytest.raises(UsageError, match="expected a list with the strategy of the group, ran"):
            after(chosen_by_hand, remove=remove, add=[AddedMembers(strategies=("sticky",))])


def test_members_that_replace_all_others_have_the_strategy_of_their_library() -> None:
    spec = after(group("range", "ab"), remove=["a", "b"], add=[AddedMembers(library="kafkajs")])
    plan = dry_run(spec)
    assert (plan.strategy, plan.computed_as) == ("RoundRobinAssigner", "kafkajs 2.2.4")
    assert votes(spec) == []


def test_a_vote_for_the_cooperative_strategy_makes_no_eager_member_keep_partitions() -> None:
    """Members of Java that list an eager strategy, too, give up all partitions."""
    eager = group("range", "ab", ("cooperative-sticky", "ab"))
    spec = after(eager, add=[AddedMembers(library="franz-go")])
    assert (spec.strategy, dry_run(spec).rebalance) == ("cooperative-sticky", "eager")


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (AddedMembers(strategies=("rangy",)), "found 'rangy'; did you mean 'range'"),
        (AddedMembers(library="kafka"), "found 'kafka'"),
        (AddedMembers(library="kafka-go", strategies=("sticky",)), "kafka-go does not have sticky"),
        (
            AddedMembers(library="librdkafka", strategies=("range", "cooperative-sticky")),
            "librdkafka does not start with",
        ),
    ],
)
def test_a_client_that_cannot_be_configured_so(added: AddedMembers, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        after(group("range", "ab"), add=[added])


@pytest.mark.parametrize(
    ("library", "lists"),
    [  # `ConsumerConfig` of 2.8 and 3.0; KIP-726
        ("java@2.8.1", ("range",)),
        ("java@3.0", ("range", "cooperative-sticky")),
        ("librdkafka", ("range", "roundrobin")),
    ],
)
def test_who_names_a_library_lists_its_default_strategies(
    library: str, lists: tuple[str, ...]
) -> None:
    *_, new = after(group("range", "ab"), add=[AddedMembers(library=library)]).members
    assert (new.lists, new.client and new.client.name) == (lists, software(library).name)


def test_the_library_of_a_new_member_does_not_lead() -> None:
    """Java's member leads, and fails with what kafka-go's member sends."""
    spec = group("range", "ab")
    unknown = tuple(
        replace(each, client=None, may_be=frozenset({"kafka-clients"})) for each in spec.members
    )
    for given in (spec, replace(spec, members=unknown), replace(spec, leader_id="a")):
        joined = after(given, add=[AddedMembers(library="kafka-go")])
        assert joined.computed_as == JAVA
        error = dry_run(joined).error
        assert error is not None
        assert error.type == "SchemaException"
    only = after(spec, remove=["a", "b"], add=[AddedMembers(library="kafka-go")])
    assert only.computed_as.name == "kafka-go"


def test_members_that_also_list_an_eager_strategy_give_up_everything() -> None:
    keeps = {
        strategies: after(
            group("cooperative-sticky", "ab"), add=[AddedMembers(strategies=strategies)]
        )
        .members[-1]
        .keeps
        for strategies in (("cooperative-sticky",), ("cooperative-sticky", "range"))
    }
    assert list(keeps.values()) == [True, False]


def tried(spec: GroupSpec, added: AddedMembers) -> GroupSpec | str:
    """Return the group with new members, or why it cannot be."""
    try:
        return after(spec, add=[added])
    except UsageError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_lists_of_new_members_count(seed: int) -> None:
    """Members whose lists are hidden are joined by some that say theirs."""
    random = Random(seed)
    known = random.sample(("range", "roundrobin", "sticky"), random.choice((2, 3)))
    lists: dict[str, Sequence[str]] = {}
    past: list[PastGeneration] = []
    for number in range(random.randint(1, 5)):
        own = random.sample(known, random.randint(1, len(known)))
        if set(own).intersection(*lists.values()):
            lists[f"m{number}"] = own
            past.insert(0, PastGeneration(number, chosen(lists, [*lists]), tuple(lists)))
    now, *earlier = past
    spec = GroupSpec(
        now.assignor,
        tuple(MemberSpec(name, ("t",), client=software("franz-go")) for name in lists),
        {"t": TopicMetadata(7)},
        has_votes=False,
        past_generations=tuple(earlier),
    )
    names = tuple(random.sample(known, random.randint(1, len(known))))
    count = random.randint(1, 4)
    is_common = bool(set(names).intersection(*lists.values()))
    joined = tried(spec, AddedMembers(count, strategies=names))
    if isinstance(joined, str):
        assert "INCONSISTENT_GROUP_PROTOCOL" in joined
        assert not is_common
        return
    if not is_common:
        assert joined.may_be_refused
        return
    lists |= {f"new-{at}": names for at in range(count)}
    assert joined.may_win is not None
    assert chosen(lists, [*lists]) in joined.may_win
    assert joined.strategy == joined.may_win[0]


def test_whoever_leads_a_member_that_claims_nothing_gives_up_everything() -> None:
    """Recorded of a leader of librdkafka, with members of Java 3.3, which are not recognized."""
    sent = joined("leads", 2, 6), joined("gives", 0, 6, version=1)
    past = tuple(
        PastGeneration(at, "cooperative-sticky", ("gives", "leads"), (), ("leads",), ("gives",))
        for at in (6, 5, 4)
    )
    group = Group("g", GroupType.CLASSIC, None, "consumer", "cooperative-sticky", leader_id="leads")
    specs = (
        MemberSpec("leads", ("t",), client=software("librdkafka")),
        MemberSpec("gives", ("t",), may_be=frozenset({"kafka-clients", "sarama"})),
    )
    found = with_keeping(replace(group, members=sent, past_generations=past), specs)
    assert [member.keeps for member in found] == [None, False]
