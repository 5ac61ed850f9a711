"""What can be wrong with a group of ZooKeeper consumers: kinds of findings, and what they mean."""

from dataclasses import dataclass
from typing import Self

from kgroup.word import Word

__all__ = ["FaultKind", "Finding"]

_REBALANCE = (
    "A rebalance takes some seconds: check again. If it stays, look in the consumers' logs for "
    "ConsumerRebalanceFailedException, and restart the consumers that have it."
)


class FaultKind(Word):
    """What was found; promised to scripts. `advice` says what to do about it."""

    advice: str

    def __new__(cls, word: str, sentence: str = "", advice: str = "") -> Self:
        """Make a member."""
        member = str.__new__(cls, word)
        member._value_, member.sentence, member.advice = word, sentence, advice
        return member

    BAD_REGISTRATION = (
        "bad-registration",
        "A consumer's node cannot be read; no consumer of the group can rebalance while it is "
        "there.",
        "Stop the client that wrote it, or delete the node; then restart the consumers.",
    )
    BAD_OWNER = (
        "bad-owner",
        "An owner node cannot be read; nobody else can own the partition while it is there.",
        "Delete the node, and restart a consumer of the group.",
    )
    BAD_OFFSET = (
        "bad-offset",
        "A committed offset is none: the consumer that gets the partition cannot rebalance where "
        "it is no number, and starts where auto.offset.reset leads where it is below 0.",
        "Write the offset that you want into the node, or delete it.",
    )
    FOREIGN_NODE = (
        "foreign-node",
        "A node that no consumer of Kafka writes.",
        "Find out who wrote it; consumers pass it over.",
    )
    NO_SESSION = (
        "no-session",
        "The node of a consumer or an owner belongs to no session, so it stays when its consumer "
        "goes.",
        "Consumers write such nodes with their session. Delete it, and restart the group.",
    )
    SAME_ID = (
        "same-id",
        "Two sessions write as one consumer: two processes with one consumer.id, or a process that "
        "has lost its session and has not written its owner nodes anew.",
        "Check again after a session timeout. If it stays, give each process a consumer.id of its "
        "own, or leave the setting out.",
    )
    NO_TOPIC = (
        "no-topic",
        "A consumer subscribes to a topic that does not exist, or its list matches none.",
        "Create the topic, or correct the subscription; until then the streams wait.",
    )
    CANNOT_ASSIGN = (
        "cannot-assign",
        "Every consumer of the group fails to assign by this strategy.",
        "With roundrobin all consumers need the same topics, and each as many streams for one as "
        "for another; else use range.",
    )
    NO_OWNER = (
        "no-owner",
        "Nobody owns a partition of a topic that the group subscribes to: nobody reads it.",
        _REBALANCE,
    )
    OWNER_GONE = (
        "owner-gone",
        "The owner of a partition is no consumer of the group: nobody reads the partition, and "
        "nobody else can own it while the node is there.",
        "A node with a session goes with it; check again after a session timeout. Delete one that "
        "stays, and restart a consumer of the group.",
    )
    NO_SUCH_THREAD = (
        "no-such-thread",
        "A partition is owned by a thread that its consumer does not have for the topic.",
        "Restart that consumer: it writes its owner nodes anew.",
    )
    OTHER_OWNER = (
        "other-owner",
        "A partition is owned by another thread than the algorithm gives it to.",
        f"{_REBALANCE} All consumers need the same partition.assignment.strategy and Kafka "
        "version; --strategy names it.",
    )
    BEFORE_START = (
        "before-start",
        "The records from the committed offset on are gone.",
        "A running consumer may be ahead of its commit. For one that starts, write the offset that "
        "you want into the node, or choose auto.offset.reset.",
    )
    PAST_END = (
        "past-end",
        "The committed offset lies past the end of the log: the topic was made anew, or the log "
        "was cut.",
        "For a consumer that starts, write the offset that you want into the node, or choose "
        "auto.offset.reset.",
    )
    OFFSETS_DIFFER = (
        "offsets-differ",
        "ZooKeeper and Kafka have different commits of the group.",
        "With dual.commit.enabled a consumer that starts takes the greater one. Check again after "
        "a commit; if it stays, see that all consumers commit to both, or, when all commit to "
        "Kafka alone, delete those in ZooKeeper.",
    )
    NO_CONSUMERS = (
        "no-consumers",
        "The group has commits and no consumers.",
        "Start its consumers, or delete /consumers/GROUP if nobody needs it any more.",
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: what it is.
        group_id: the group.
        path: the node concerned; it does not exist where nobody owns a partition.
        reason: what was found, in a sentence.
        advice: what to do about it, in a sentence.
        topic: user's topic concerned.
        partition: its partition.
        consumer_id: the consumer concerned.
        offset: committed in ZooKeeper.
        kafka_offset: committed in Kafka.
        log_start_offset: where the log begins: there `auto.offset.reset=smallest` leads.
        log_end_offset: where the log ends: there `auto.offset.reset=largest` leads.
        since_ms: since when, as far as ZooKeeper tells: of a group without consumers, its last
            commit; of others, when the node was written.
    """

    code: FaultKind
    group_id: str
    path: str
    reason: str
    advice: str
    topic: str | None = None
    partition: int | None = None
    consumer_id: str | None = None
    offset: int | None = None
    kafka_offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    since_ms: int | None = None
