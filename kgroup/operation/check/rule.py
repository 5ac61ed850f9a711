"""Rules of `kgroup check`: what each one means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kgroup.described_enum import DescribedEnum
from kgroup.operation.printed_command import Reach

FAILED_REBALANCE = (
    "A rebalance takes some seconds: check again. If the finding stays, look for "
    "ConsumerRebalanceFailedException in the consumers' logs, and restart those that have it."
)
"""Advice for ZooKeeper consumers that may have failed to rebalance."""
AHEAD_OF_COMMIT = "A running consumer may be ahead of its commit."


class Severity(DescribedEnum):
    """Severity of a finding, worst first; part of the JSON output."""

    ERROR = ("error", "Records are not read, or will be lost or read again.")
    WARNING = ("warning", "The group works, but something is about to fail or is expensive.")
    INFO = ("info", "Nothing is wrong, but something could be better.")

    @property
    def rank(self) -> int:
        """Rank of the severity; 0 is the worst."""
        return list(Severity).index(self)


class Basis(DescribedEnum):
    """The evidence for a finding."""

    LOOK = ("look", "One look at the source.")
    LOOKS = ("looks", "Several looks at the source, some time apart.")
    LOG = ("log", "Records of __consumer_offsets: rebalances, commits, timeouts, transactions.")
    WAREHOUSE = ("warehouse", "Past records that kgroup history build has stored.")


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command that shows more about a finding, or fixes it.

    Attributes:
        text: the command, without "kgroup", or one of Kafka's tools; GROUP, TOPIC, PARTITION,
            MEMBER and INSTANCE are placeholders for the subject of a finding.
        reach: what the command reads.
    """

    text: str
    reach: Reach = Reach.SOURCE

    @property
    def is_of_kafka(self) -> bool:
        """Whether the command is one of Kafka's own tools."""
        return self.text.startswith("kafka-")

    def __str__(self) -> str:
        return self.text if self.is_of_kafka else f"kgroup {self.text}"


_LOOK_TWICE = NextCommand("check GROUP --interval 60", Reach.LIVE)
_MEMBERS = NextCommand("describe GROUP --members")
_COMPARE = NextCommand("assign GROUP --compare")
_TO_START = NextCommand("offsets reset GROUP --topic TOPIC:PARTITION --to-earliest", Reach.LIVE)
_TO_END = NextCommand("offsets reset GROUP --topic TOPIC:PARTITION --to-latest", Reach.LIVE)
_CAUSES = NextCommand("history rebalances GROUP", Reach.RECORDS)
_WITHOUT_IT = NextCommand("assign GROUP --remove-member MEMBER")
_MIGRATE = NextCommand("plan consumer-protocol GROUP")
_OFFSETS_TOPIC = NextCommand("kafka-topics.sh --describe --topic __consumer_offsets", Reach.LIVE)


class Rule(DescribedEnum):
    """A rule of `kgroup check`; part of the JSON output.

    Attributes:
        advice: what to do.
        commands: commands to run next.
    """

    severity: Severity
    advice: str
    commands: tuple[NextCommand, ...]

    def __new__(
        cls,
        word: str,
        sentence: str = "",
        advice: str = "",
        severity: Severity = Severity.WARNING,
        commands: tuple[NextCommand, ...] = (),
    ) -> Self:
        """Create a member of the enum."""
        member = str.__new__(cls, word)
        member._value_, member.sentence = word, sentence
        member.advice, member.severity, member.commands = advice, severity, commands
        return member

    NOBODY_READS = (
        "nobody-reads",
        "Records are waiting, and the group has no active member.",
        "Start its consumers. An application that assigns itself partitions (assign()) is not a "
        "member: look twice, a minute apart, to see whether the committed offsets advance.",
        Severity.ERROR,
        (_LOOK_TWICE,),
    )
    READER_WITHOUT_MEMBERSHIP = (
        "reader-without-membership",
        "The group has no members, but its committed offsets advance.",
        "Nothing to do if an application assigns itself partitions (assign()) and commits for "
        "this group. Otherwise, find out who commits or resets its offsets.",
        Severity.INFO,
    )
    NO_OWNER = (
        "no-owner",
        "No member owns a partition that the group should read.",
        "A rebalance takes some seconds: check again. If the finding stays, see what the "
        "members subscribe to, and look in the leader's log.",
        Severity.ERROR,
        (_MEMBERS,),
    )
    BEFORE_START = (
        "before-start",
        "The records from the committed offset on have been deleted.",
        f"{AHEAD_OF_COMMIT} For a consumer that starts, choose auto.offset.reset, or reset the "
        "committed offset.",
        Severity.ERROR,
        (_TO_START, _TO_END),
    )
    PAST_END = (
        "past-end",
        "The committed offset is after the log end offset: the topic was recreated, or the log "
        "was truncated.",
        "For a consumer that starts, choose auto.offset.reset, or reset the committed offset.",
        Severity.ERROR,
        (_TO_START, _TO_END),
    )
    DIVERGED_COMMIT = (
        "diverged-commit",
        "The log is not the one of the commit: it has other records up to the committed offset, in "
        "other leader epochs. The topic was recreated, or lost records (unclean leader election).",
        "Consumers that compare leader epochs (Java since 2.3, librdkafka since 2.1) do not resume "
        "at the commit; the lag is that of the commit. Reset the committed offset.",
        Severity.ERROR,
        (_TO_START, _TO_END),
    )
    TOPIC_GONE = (
        "topic-gone",
        "The group has committed offsets for a topic or partition that no longer exists.",
        "Delete the committed offsets: if the topic is recreated, consumers would start from them.",
        Severity.WARNING,
        (NextCommand("offsets delete GROUP --topic TOPIC:PARTITION", Reach.LIVE),),
    )
    STUCK_PARTITION = (
        "stuck-partition",
        "A partition has an owner and records to read; its log grows, but the committed offset "
        "does not advance.",
        "Look in the owner's log for a record that it cannot process, or a call that does not "
        "return. max.poll.interval.ms removes it from the group only if it no longer polls.",
        Severity.ERROR,
    )
    NEVER_COMMITTED = (
        "never-committed",
        "A partition has an owner and records to read, but the group has no committed "
        "offset for it.",
        "A consumer that starts there follows auto.offset.reset. Check that the application "
        "commits (enable.auto.commit, or its own commits), and look in the owner's log, unless "
        "it stores offsets elsewhere. Look twice, a minute apart, to see whether the log grows.",
        Severity.WARNING,
        (_LOOK_TWICE,),
    )
    LAG = (
        "lag",
        "More records are waiting for the group than its limit (--limit lag) allows.",
        "See whether the lag grows. If it does, add consumers, up to one per partition, or make "
        "processing faster.",
        Severity.WARNING,
        (NextCommand("describe GROUP --watch 5", Reach.LIVE),),
    )
    TIME_LAG = (
        "time-lag",
        "A record has been waiting for longer than the group's limit (--limit time-lag) allows.",
        "See whether the lag in time grows. If it does, add consumers, up to one per "
        "partition, or make processing faster.",
        Severity.WARNING,
        (NextCommand("describe GROUP --time-lag --watch 5", Reach.LIVE),),
    )
    OLD_COMMIT = (
        "old-commit",
        "A partition has an owner and records to read, but the last commit is old.",
        "Look in the owner's log, and check that it commits (enable.auto.commit, or its own "
        "commits).",
    )
    COMMIT_PAUSE = (
        "commit-pause",
        "Records were waiting, but nothing was committed for a long time; then commits resumed.",
        "Look in the owner's log of that time for a batch that took long, a pause of the "
        "machine or a rebalance. The warehouse has all pauses.",
        Severity.WARNING,
        (NextCommand("history commits GROUP --pauses", Reach.RECORDS),),
    )
    EXPIRING_OFFSET = (
        "expiring-offset",
        "Committed offsets of a group without members expire soon; its consumers would then "
        "start where auto.offset.reset says.",
        "Start its consumers, raise offsets.retention.minutes, or export the committed offsets.",
        Severity.WARNING,
        (NextCommand("offsets export GROUP --to offsets.json"),),
    )
    BACKWARD_COMMIT = (
        "backward-commit",
        "A commit was smaller than the one before it: records are read again.",
        "If nobody has reset offsets, two consumers read the same partition, or one commits "
        "what another has read: the history of commits shows which.",
        Severity.WARNING,
        (NextCommand("history commits GROUP", Reach.RECORDS),),
    )
    OUTSIDE_COMMIT = (
        "outside-commit",
        "An active group has a recent commit for a topic that none of its members reads.",
        "Find out which application commits with this group id without being a member.",
    )
    OPEN_TRANSACTION = (
        "open-transaction",
        "An open transaction holds back the last stable offset: consumers with "
        "isolation.level=read_committed wait.",
        "Find the producer, and abort the transaction if it hangs.",
        Severity.WARNING,
        (
            NextCommand(
                "kafka-transactions.sh find-hanging --topic TOPIC --partition PARTITION", Reach.LIVE
            ),
        ),
    )
    IDLE_MEMBER = (
        "idle-member",
        "A member has no partitions, although there are enough for all members.",
        "See what it subscribes to. If the assignor leaves members out (range assigns topic by "
        "topic), compare it with other assignors.",
        Severity.WARNING,
        (_MEMBERS, _COMPARE),
    )
    TOO_MANY_MEMBERS = (
        "too-many-members",
        "The group has more members than partitions to read: some members are idle.",
        "Stop some members, or add partitions.",
        Severity.INFO,
        (_MEMBERS,),
    )
    UNEVEN_LOAD = (
        "uneven-load",
        "Uneven assignment: of members with the same subscription, one has far more partitions "
        "than another.",
        "Compare the assignor with others.",
        Severity.WARNING,
        (_COMPARE,),
    )
    MIXED_PROTOCOLS = (
        "mixed-protocols",
        "Some members use the classic protocol, others the consumer protocol.",
        "Finish the migration; its plan shows how far it is.",
        Severity.WARNING,
        (_MIGRATE,),
    )
    MIXED_MEMBERSHIP = (
        "mixed-membership",
        "Some members are static (group.instance.id), others are not.",
        "Unless that is intended, finish the migration, or go back (--back); the plan changes "
        "only the members that need it.",
        Severity.INFO,
        (NextCommand("plan static-membership GROUP"),),
    )
    LEAVING_STATIC_MEMBERS = (
        "leaving-static-members",
        "Static members use a library whose members leave when they close, as dynamic ones do.",
        "Their group.instance.id prevents no rebalance when they are restarted; only a member that "
        "crashes may return without one. Another library would be needed for that.",
        Severity.INFO,
    )
    MIXED_ASSIGNORS = (
        "mixed-assignors",
        "Members request different server-side assignors; the coordinator uses the one that "
        "most members request.",
        "Set the same group.remote.assignor for all members.",
    )
    MIXED_CLIENTS = (
        "mixed-clients",
        "Members use different client libraries, or versions with different encodings.",
        "Finish the change to one library. Libraries assign differently and do not read each "
        "other's user data, so partitions move when the leader's library changes.",
    )
    EAGER_STRATEGY = (
        "eager-strategy",
        "The assignor is eager: all members stop reading in each rebalance.",
        "The plan shows whether another assignor would stop partitions for less time; this does "
        "not hold for every group. With --rule eager-strategy, the finding has the plan's "
        "numbers.",
        Severity.INFO,
        (NextCommand("plan GROUP"),),
    )
    CONSUMER_PROTOCOL = (
        "consumer-protocol",
        "Whether a classic group could use the consumer protocol (KIP-848) now; only checked "
        "with --rule.",
        "The plan has the preconditions, what to do if one does not hold, and the steps.",
        Severity.INFO,
        (_MIGRATE,),
    )
    SESSION_TIMEOUT = (
        "session-timeout",
        "A member's session timeout is longer than its poll interval: the member is removed for "
        "slow polls before its death is detected.",
        "Set session.timeout.ms below max.poll.interval.ms (Kafka Connect: "
        "rebalance.timeout.ms), and heartbeat.interval.ms to a third of session.timeout.ms.",
    )
    LATE_POLL = (
        "late-poll",
        "A member polls too late again and again: it leaves the group when max.poll.interval.ms "
        "has passed, and joins again; each time the group rebalances.",
        "Find out why the member is slow: compare its host with the others. Process fewer "
        "records between polls (Java, kafka-python: max.poll.records; others: smaller batches), "
        "or move slow work to another thread. "
        "Raise max.poll.interval.ms only if the member keeps up on average: an eager rebalance "
        "waits that long for it. Static membership does not help.",
        Severity.WARNING,
        (_CAUSES, _WITHOUT_IT),
    )
    RESTARTING_MEMBER = (
        "restarting-member",
        "A member is gone and a new one with its client id joins, again and again, more often than "
        "in a deployment: its process restarts, or its session expires.",
        "Look in the log of the process for why it ends, what stops it (memory limit, liveness "
        "probe), and for pauses longer than session.timeout.ms. If the restarts are wanted, a plan "
        "shows whether static membership avoids the rebalances.",
        Severity.WARNING,
        (_CAUSES, NextCommand("plan static-membership GROUP")),
    )
    EXPIRING_SESSION = (
        "expiring-session",
        "The session of a member expires again and again: the coordinator receives no heartbeat "
        "for session.timeout.ms.",
        "Look for crashes, pauses of the process (garbage collection, a suspended machine) and "
        "lost connections. If pauses are normal, raise session.timeout.ms.",
        Severity.WARNING,
        (_CAUSES,),
    )
    CHANGING_METADATA = (
        "changing-metadata",
        "A member changes its metadata again and again; each change starts a rebalance.",
        "Find out what changes: the user data of its assignor, or connectors that are created, "
        "changed and deleted (Kafka Connect).",
        Severity.WARNING,
        (_CAUSES,),
    )
    CHANGING_SUBSCRIPTION = (
        "changing-subscription",
        "A member changes its subscription again and again; each change starts a rebalance.",
        "Subscribe to all topics at once, or by a pattern; look for code that subscribes in a "
        "loop, and for topics that are created and deleted.",
        Severity.WARNING,
        (_CAUSES,),
    )
    LONG_REBALANCE = (
        "long-rebalance",
        "A rebalance takes long, or rebalances follow each other; meanwhile partitions are not "
        "read, or fewer are.",
        "Find the member that joins late (at most max.poll.interval.ms), or that leaves again "
        "and again. If SyncGroup fails with an unknown server error (-1), the record of the group "
        "may be larger than max.message.bytes of __consumer_offsets: see the broker's log.",
        Severity.WARNING,
        (NextCommand("describe GROUP --watch 2", Reach.LIVE),),
    )
    LARGE_GROUP_RECORD = (
        "large-group-record",
        "The record of a classic group, with the subscriptions and assignments of all members, has "
        "at least half the size that __consumer_offsets accepts. If it is larger, every SyncGroup "
        "fails with an unknown server error (-1), and the group rebalances without end.",
        "Each member's subscription lists all its topics, also those of a pattern: subscribe to "
        "fewer topics, or run fewer members or several groups. The consumer protocol writes a "
        "record for each member. At once: raise max.message.bytes of __consumer_offsets.",
        Severity.WARNING,
        (_MEMBERS, _MIGRATE),
    )
    REBALANCE_STORM = (
        "rebalance-storm",
        "Rebalances followed each other; meanwhile partitions were not read, or fewer were.",
        "The history of rebalances has the causes. A member that leaves max.poll.interval.ms "
        "after each assignment polls too late: let it process fewer records per poll, "
        "or raise that limit. For members that restart, a plan shows "
        "whether static membership helps.",
        Severity.WARNING,
        (_CAUSES, NextCommand("plan static-membership GROUP")),
    )
    GENERATION_CHURN = (
        "generation-churn",
        "The group rebalances again and again, all day long.",
        "The history of rebalances has the causes: look for members that come and go, such as "
        "members that poll too late (max.poll.interval.ms).",
        Severity.WARNING,
        (_CAUSES,),
    )
    SHARED_INSTANCE_ID = (
        "shared-instance-id",
        "A static member is replaced again and again within one generation: two processes use "
        "the same group.instance.id, or one restarts in a loop.",
        "Give each process its own group.instance.id. Look in the consumers' logs for "
        "FencedInstanceIdException, and for restarts.",
        Severity.ERROR,
    )
    SHARED_GROUP_ID = (
        "shared-group-id",
        "Members look like several applications with one group id: they subscribe to disjoint "
        "topics and run apart. Each rebalance stops all of them.",
        "Give each application its own group id; copy the committed offsets first.",
        Severity.WARNING,
        (_MEMBERS,),
    )
    PARTITION_GONE = (
        "partition-gone",
        "A member owns partitions that no longer exist.",
        "The topic was deleted, or recreated with fewer partitions. Check that the topic is "
        "correct, then restart the member: a rebalance assigns the partitions that exist.",
        Severity.ERROR,
    )
    MISSING_STATIC_MEMBER = (
        "missing-static-member",
        "A static member is missing; its partitions are not read until its session expires.",
        "Start the member, or remove it for good.",
        Severity.WARNING,
        (NextCommand("members remove GROUP --instance INSTANCE", Reach.LIVE),),
    )
    DELAYED_TASKS = (
        "delayed-tasks",
        "Kafka Connect: the leader delays a part of the assignment. Connectors and tasks of "
        "workers that left stay unassigned, so that workers that return get them back; or, if "
        "workers had to give up tasks several times in a row (since Kafka 3.4), the load stays "
        "uneven for some time.",
        "If a worker is missing, start it again: what it ran does not run until the delay "
        "(scheduled.rebalance.max.delay.ms) has passed.",
        Severity.WARNING,
        (_MEMBERS, _CAUSES),
    )
    COORDINATOR_LOAD = (
        "coordinator-load",
        "One broker coordinates far more groups than the others.",
        "The leaders of the partitions of __consumer_offsets coordinate the groups: check that "
        "they are spread evenly (elect preferred leaders), and that there are enough "
        "partitions.",
        Severity.WARNING,
        (_OFFSETS_TOPIC,),
    )
    OFFSETS_TOPIC = (
        "offsets-topic",
        "__consumer_offsets is misconfigured or unavailable: commits can be lost, or groups "
        "have no coordinator.",
        "The topic should have many partitions, three in-sync replicas and cleanup.policy=compact.",
        Severity.ERROR,
        (_OFFSETS_TOPIC,),
    )
    BAD_REGISTRATION = (
        "bad-registration",
        "A consumer's node cannot be read; no consumer of the group can rebalance while it exists.",
        "Stop the client that wrote the node, or delete the node; then restart the consumers.",
        Severity.ERROR,
    )
    BAD_OWNER = (
        "bad-owner",
        "An owner node cannot be read; no other consumer can own the partition while it exists.",
        "Delete the node, and restart a consumer of the group.",
        Severity.ERROR,
    )
    BAD_OFFSET = (
        "bad-offset",
        "A committed offset is invalid. If it is not a number, the consumer that gets the "
        "partition cannot rebalance; if it is negative, the consumer starts where "
        "auto.offset.reset says.",
        "Write the right offset into the node, or delete the node.",
        Severity.ERROR,
    )
    FOREIGN_NODE = (
        "foreign-node",
        "A node that Kafka's consumers do not write.",
        "Find out who wrote it; consumers ignore it.",
    )
    NO_SESSION = (
        "no-session",
        "The node of a consumer or an owner belongs to no session, so it stays after the "
        "consumer stops.",
        "Consumers write such nodes as ephemeral nodes. Delete the node, and restart the group.",
    )
    SAME_ID = (
        "same-id",
        "Two sessions write as the same consumer: two processes have the same consumer.id, or a "
        "process has lost its session and not rewritten its owner nodes.",
        "Check again after a session timeout. If the finding stays, give each process its own "
        "consumer.id, or remove the setting.",
    )
    NO_TOPIC = (
        "no-topic",
        "A consumer subscribes to a topic that does not exist, or its white or black list "
        "matches no topic.",
        "Create the topic, or correct the subscription; until then, its streams wait.",
    )
    CANNOT_ASSIGN = (
        "cannot-assign",
        "Every consumer of the group fails to assign partitions with this strategy.",
        "With roundrobin, all consumers need the same topics, and each the same number of "
        "streams for every topic; otherwise use range.",
        Severity.ERROR,
    )
    OWNER_GONE = (
        "owner-gone",
        "The owner of a partition is not a registered consumer of the group: nobody reads the "
        "partition, and no other consumer can own it while the node exists.",
        "ZooKeeper deletes an ephemeral node with its session; check again after a session "
        "timeout. Delete a node that stays, and restart a consumer of the group.",
        Severity.ERROR,
    )
    NO_SUCH_THREAD = (
        "no-such-thread",
        "A partition is owned by a thread that its consumer does not have for the topic.",
        "Restart the consumer: it rewrites its owner nodes.",
    )
    OTHER_OWNER = (
        "other-owner",
        "A partition is owned by another thread than the one that the algorithm computes.",
        f"{FAILED_REBALANCE} All consumers need the same partition.assignment.strategy and Kafka "
        "version; --strategy names it.",
    )
    OFFSETS_DIFFER = (
        "offsets-differ",
        "ZooKeeper and Kafka have different committed offsets of the group.",
        "With dual.commit.enabled, a consumer that starts uses the larger one. Check again "
        "after a commit. If the finding stays, check that all consumers commit to both; or, if "
        "all commit to Kafka only, delete the offsets in ZooKeeper.",
    )
    NO_CONSUMERS = (
        "no-consumers",
        "The group has committed offsets but no consumers.",
        "Start its consumers, or delete /consumers/GROUP if it is no longer needed.",
    )
    LEGACY_GROUP = (
        "legacy-group",
        "A group still uses ZooKeeper consumers, although the brokers can coordinate groups.",
        "Plan the migration to the Java consumer; Kafka 4.0 and later have no ZooKeeper.",
        Severity.INFO,
        (NextCommand("plan new-consumer GROUP"),),
    )


PAST_RULES = frozenset(
    {
        Rule.BACKWARD_COMMIT,
        Rule.CHANGING_METADATA,
        Rule.CHANGING_SUBSCRIPTION,
        Rule.COMMIT_PAUSE,
        Rule.EXPIRING_SESSION,
        Rule.GENERATION_CHURN,
        Rule.LATE_POLL,
        Rule.REBALANCE_STORM,
        Rule.RESTARTING_MEMBER,
        Rule.SHARED_INSTANCE_ID,
        Rule.STUCK_PARTITION,
    }
)
"""Rules that the records of a group's past are checked with."""


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """Description of a rule; attributes as in `Rule`.

    Attributes:
        code: name of the rule.
        severity: severity of its findings.
        sentence: what a finding means.
        advice: what to do.
        commands: commands to run next; GROUP, TOPIC, PARTITION, MEMBER and INSTANCE are
            placeholders for the subject of a finding.
    """

    code: Rule
    severity: Severity
    sentence: str
    advice: str
    commands: tuple[str, ...]


def describe_rules() -> list[RuleDescription]:
    """Return the descriptions of all rules, in order."""
    return [
        RuleDescription(
            rule, rule.severity, rule.sentence, rule.advice, tuple(map(str, rule.commands))
        )
        for rule in Rule
    ]


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """A record of `__consumer_offsets` that a finding is based on.

    Attributes:
        offsets_partition: partition of `__consumer_offsets`.
        log_offset: offset of the record in that partition.
        time_ms: time of the record; None if it has none.
        shows: what the record shows, as a sentence.
    """

    offsets_partition: int
    log_offset: int
    time_ms: int | None
    shows: str


@dataclass(frozen=True, slots=True)
class Consequence:
    """What follows from the cause that a finding names.

    Attributes:
        code: name of the rule.
        severity: severity as a finding of its own; that of the cause is not lower.
        reason: what was found, as a sentence.
        topic: topic name; None if it is not about a topic.
        partition: partition number; None if it is not about a partition.
        member_id: member id; None if it is not about a member.
        since_ms: since when, if known.
    """

    code: Rule
    severity: Severity
    reason: str
    topic: str | None
    partition: int | None
    member_id: str | None
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or possible improvement.

    Attributes:
        code: name of the rule.
        severity: severity of the finding.
        basis: evidence for the finding.
        group_id: group id; None if the finding is about the cluster.
        reason: what was found, as a sentence.
        advice: what to do, in a sentence or two.
        topic: topic name; None if the finding is not about a topic.
        partition: partition number; None if the finding is not about a partition.
        member_id: member id; None if the finding is not about a member, or about several.
        member_ids: ids of all members that `idle-member` or `session-timeout` is about; empty for
            other findings.
        client_id: client.id of a member that causes rebalances again and again; else None.
        client_host: address of that member as seen by the broker.
        timeout_ms: timeout of that member that expires again and again (`max.poll.interval.ms`,
            `session.timeout.ms`), or delay of Kafka Connect; else None.
        event_count: how often that happened, with all such members.
        broker: broker id; None if the finding is not about a broker.
        offset: committed offset, if the finding is about it.
        log_start_offset: log start offset: where `auto.offset.reset=earliest` starts.
        log_end_offset: log end offset: where `auto.offset.reset=latest` starts.
        path: path of the ZooKeeper node; the node does not exist if a partition has no owner.
        kafka_offset: zookeeper: committed offset in Kafka; if it differs.
        record_bytes: size of the group's record, as a batch without compression.
        record_limit_bytes: `max.message.bytes` of `__consumer_offsets`: the largest batch that it
            accepts.
        since_ms: since when, if the source knows; the last commit for a commit or a group without
            members, the last write for a node.
        evidence_from_ms: start of the evidence; time of the first look, or start of the past that
            was searched; None for a single look.
        evidence_to_ms: end of the evidence; time of the last look, or end of the past that was
            searched; None for a single look.
        evidence: records of `__consumer_offsets` that show it, in log order; of many, the last
            ten.
        evidence_count: number of all these records; None if the finding is not based on records of
            the past.
        caused_by: code of another finding about the group that explains this one; then this one is
            among its `consequences`, unless that rule is not checked.
        consequences: what else was found about the group that follows from this finding.
        commands: commands to run next; of kgroup or Kafka's tools, ready to paste, with the
            connection options in use (secrets only by name, as `KEY=...`; `HOST:PORT` if the
            brokers are unknown).
    """

    code: Rule
    severity: Severity
    basis: Basis
    group_id: str | None
    reason: str
    advice: str
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    member_ids: tuple[str, ...] = ()
    client_id: str | None = None
    client_host: str | None = None
    timeout_ms: int | None = None
    event_count: int | None = None
    broker: int | None = None
    offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    path: str | None = None
    kafka_offset: int | None = None
    record_bytes: int | None = None
    record_limit_bytes: int | None = None
    since_ms: int | None = None
    evidence_from_ms: int | None = None
    evidence_to_ms: int | None = None
    evidence: tuple[EvidenceRecord, ...] = ()
    evidence_count: int | None = None
    caused_by: Rule | None = None
    consequences: tuple[Consequence, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str | None, ...]:
        """Fields that identify the same finding in the next check, without its numbers.

        A member that restarts or polls too late has another member id each time.
        """
        who = self.member_id if self.client_id is None else self.client_id
        partition = None if self.partition is None else str(self.partition)
        broker = None if self.broker is None else str(self.broker)
        return self.code, self.group_id, self.topic, partition, who, broker, self.path
