"""Rules of `kgroup check`: what each one means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kgroup.described_enum import DescribedEnum
from kgroup.operation.printed_command import Reach

_REBALANCE = (
    "A rebalance takes some seconds: check again. If it stays, look in the consumers' logs for "
    "ConsumerRebalanceFailedException, and restart the consumers that have it."
)


class Severity(DescribedEnum):
    """Severity of a finding, worst first; part of the JSON output."""

    ERROR = ("error", "Records are not read, or will be lost or read again.")
    WARNING = ("warning", "It works, and something is about to go wrong or costs too much.")
    INFO = ("info", "Nothing is wrong; something could be better.")

    @property
    def rank(self) -> int:
        """Rank of the severity; 0 is the worst."""
        return list(Severity).index(self)


class Basis(DescribedEnum):
    """The evidence for a finding."""

    LOOK = ("look", "What one look at the source shows.")
    LOOKS = ("looks", "What several looks show, some time apart.")
    LOG = ("log", "What __consumer_offsets alone tells: times of commits, timeouts, transactions.")
    WAREHOUSE = ("warehouse", "What records of the past show, that kgroup history build has kept.")


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command that shows more about a finding, or fixes it.

    Attributes:
        text: the command, without "kgroup" or as a tool of Kafka; GROUP, TOPIC, PARTITION and
            INSTANCE stand for what a finding is about.
        reach: what it reads.
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
_COMPARE = NextCommand("assign GROUP --dry-run --compare")
_TO_START = NextCommand("offsets reset GROUP --topic TOPIC:PARTITION --to-earliest", Reach.LIVE)
_TO_END = NextCommand("offsets reset GROUP --topic TOPIC:PARTITION --to-latest", Reach.LIVE)
_CAUSES = NextCommand("history rebalances GROUP", Reach.WAREHOUSE)
_MIGRATE = NextCommand("plan consumer-protocol GROUP")
_OFFSETS_TOPIC = NextCommand("kafka-topics.sh --describe --topic __consumer_offsets", Reach.LIVE)


class Rule(DescribedEnum):
    """A rule of `kgroup check`; part of the JSON output.

    Attributes:
        advice: what to do about it.
        commands: what to run next.
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
        "Records wait, and the group has no members.",
        "Start its consumers. A program that assigns itself partitions (assign()) is no "
        "member: two looks, a minute apart, show whether its commits move.",
        Severity.ERROR,
        (_LOOK_TWICE,),
    )
    READER_WITHOUT_MEMBERSHIP = (
        "reader-without-membership",
        "The group has no members, and its commits move.",
        "Nothing to do if a program assigns itself partitions (assign()) and commits for this "
        "group. Else find out who commits or resets its offsets.",
        Severity.INFO,
    )
    NO_OWNER = (
        "no-owner",
        "Nobody owns a partition that the group should read.",
        "A rebalance takes some seconds: look again. If it stays, see what the members "
        "subscribe to, and look in the leader's log.",
        Severity.ERROR,
        (_MEMBERS,),
    )
    BEFORE_START = (
        "before-start",
        "The records from the committed offset on are gone.",
        "A running consumer may be ahead of its commit. For one that starts, choose "
        "auto.offset.reset, or reset the committed offset.",
        Severity.ERROR,
        (_TO_START, _TO_END),
    )
    PAST_END = (
        "past-end",
        "The committed offset lies past the end of the log: the topic was made anew, or the log "
        "was cut.",
        "For a consumer that starts, choose auto.offset.reset, or reset the committed offset.",
        Severity.ERROR,
        (_TO_START, _TO_END),
    )
    TOPIC_GONE = (
        "topic-gone",
        "The group has commits for a topic or partition that does not exist any more.",
        "Delete the commits: a topic that is created again under that name would be read from "
        "there.",
        Severity.WARNING,
        (NextCommand("offsets delete GROUP --topic TOPIC:PARTITION", Reach.LIVE),),
    )
    STUCK_PARTITION = (
        "stuck-partition",
        "A partition has an owner and records to read, and its commit stands still while its log "
        "grows.",
        "Look at the owner's log: a record that it cannot process, or a call that does not return. "
        "max.poll.interval.ms removes it from the group only if it does not poll any more.",
        Severity.ERROR,
    )
    NEVER_COMMITTED = (
        "never-committed",
        "A partition has an owner and records, and the group has committed nothing for it.",
        "A consumer that starts there follows auto.offset.reset. See that the program commits "
        "(enable.auto.commit, or the program itself), and look at the owner's log, unless it "
        "keeps offsets elsewhere. Two looks, a minute apart, show whether the log grows "
        "meanwhile.",
        Severity.WARNING,
        (_LOOK_TWICE,),
    )
    LAG = (
        "lag",
        "More records wait for the group than its limit (--limit lag) allows.",
        "See whether the lag grows. If it does, add consumers, up to one per partition, or "
        "make processing faster.",
        Severity.WARNING,
        (NextCommand("describe GROUP --watch 5", Reach.LIVE),),
    )
    TIME_LAG = (
        "time-lag",
        "A record has waited for longer than the group's limit (--limit time-lag) allows.",
        "See whether the lag in time grows. If it does, add consumers, up to one per "
        "partition, or make processing faster.",
        Severity.WARNING,
        (NextCommand("describe GROUP --time-lag --watch 5", Reach.LIVE),),
    )
    OLD_COMMIT = (
        "old-commit",
        "A partition has an owner and records to read, and nothing was committed for long.",
        "Look at the owner's log; see that it commits (enable.auto.commit, or the program itself).",
    )
    COMMIT_PAUSE = (
        "commit-pause",
        "While records waited nothing was committed for long; then it went on.",
        "Look at the owner's log of that time: a batch that took long, a pause of the machine, "
        "a rebalance. The warehouse has every pause.",
        Severity.WARNING,
        (NextCommand("history commits GROUP --pauses", Reach.WAREHOUSE),),
    )
    EXPIRING_OFFSET = (
        "expiring-offset",
        "Commits of a group without members are soon forgotten; its consumers then begin where "
        "auto.offset.reset leads.",
        "Start its consumers, raise offsets.retention.minutes, or save what is committed.",
        Severity.WARNING,
        (NextCommand("offsets export GROUP --to offsets.json"),),
    )
    BACKWARD_COMMIT = (
        "backward-commit",
        "An offset was committed that is smaller than the one before: records are read again.",
        "If nobody has reset offsets, two consumers read one partition, or one commits what "
        "another has read: the history of commits shows who.",
        Severity.WARNING,
        (NextCommand("history commits GROUP", Reach.WAREHOUSE),),
    )
    OUTSIDE_COMMIT = (
        "outside-commit",
        "An active group has a fresh commit for a topic that none of its members reads.",
        "Find out which program commits under this group's id without being a member.",
    )
    OPEN_TRANSACTION = (
        "open-transaction",
        "An open transaction holds back the last stable offset: consumers of isolation level "
        "read_committed wait.",
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
        "A member has no partitions, though there are enough for all.",
        "See what it subscribes to. Where the strategy leaves members out (range assigns topic "
        "by topic), compare with what other strategies would give.",
        Severity.WARNING,
        (_MEMBERS, _COMPARE),
    )
    TOO_MANY_MEMBERS = (
        "too-many-members",
        "The group has more members than partitions to read: some of them are idle.",
        "Stop some, or add partitions.",
        Severity.INFO,
        (_MEMBERS,),
    )
    UNEVEN_LOAD = (
        "uneven-load",
        "Of members that subscribe alike, one has far more partitions than another.",
        "Compare with what other strategies would give.",
        Severity.WARNING,
        (_COMPARE,),
    )
    MIXED_PROTOCOLS = (
        "mixed-protocols",
        "Some members speak the classic protocol, and some the consumer protocol.",
        "Finish the migration: its plan finds where it stands.",
        Severity.WARNING,
        (_MIGRATE,),
    )
    MIXED_ASSIGNORS = (
        "mixed-assignors",
        "Members ask the broker for different assignors; it takes the one that most ask for.",
        "Give all members the same group.remote.assignor.",
    )
    MIXED_CLIENTS = (
        "mixed-clients",
        "Members are of different client libraries, or of versions that write differently.",
        "Finish the change to one. Libraries assign differently, and do not read what others "
        "remember, so that partitions move when a member of another one leads.",
    )
    EAGER_STRATEGY = (
        "eager-strategy",
        "The strategy is eager: in each rebalance all members stop reading.",
        "Its plan tells whether another strategy would stop partitions for less time; it is "
        "not so for every group. With --rule eager-strategy the finding has the plan's figures.",
        Severity.INFO,
        (NextCommand("plan GROUP"),),
    )
    CONSUMER_PROTOCOL = (
        "consumer-protocol",
        "Whether a classic group could go to the consumer protocol (KIP-848) now; told only where "
        "--rule asks for it.",
        "Its plan has the preconditions, what to do where one does not hold, and the steps.",
        Severity.INFO,
        (_MIGRATE,),
    )
    SESSION_TIMEOUT = (
        "session-timeout",
        "A member's session is longer than its poll interval: it is thrown out for slow polls "
        "before a dead one is missed.",
        "Let session.timeout.ms be shorter than max.poll.interval.ms, and heartbeat.interval.ms a "
        "third of it.",
    )
    LONG_REBALANCE = (
        "long-rebalance",
        "A rebalance goes on for long, or one follows the other; meanwhile nobody reads, or less.",
        "Look for the member that joins late (max.poll.interval.ms is how long it may) or "
        "leaves again and again.",
        Severity.WARNING,
        (NextCommand("describe GROUP --watch 2", Reach.LIVE),),
    )
    REBALANCE_STORM = (
        "rebalance-storm",
        "Rebalances followed each other; meanwhile nobody read, or less.",
        "The history of rebalances has the causes. A member that leaves as long after each "
        "assignment as max.poll.interval.ms polls too late: let it process fewer records per "
        "poll (max.poll.records), or raise that limit. For members that restart, a plan tells "
        "whether static membership helps.",
        Severity.WARNING,
        (_CAUSES, NextCommand("plan static-membership GROUP")),
    )
    GENERATION_CHURN = (
        "generation-churn",
        "The group rebalances again and again, all day long.",
        "The history of rebalances has the causes: look for members that come and go, such as "
        "those that poll too late (max.poll.interval.ms).",
        Severity.WARNING,
        (_CAUSES,),
    )
    SHARED_INSTANCE_ID = (
        "shared-instance-id",
        "A static member is replaced again and again within one generation: two processes have one "
        "group.instance.id, or one restarts in a loop.",
        "Give each process a group.instance.id of its own. Look for FencedInstanceIdException in "
        "the logs of consumers, and for restarts.",
        Severity.ERROR,
    )
    PARTITION_GONE = (
        "partition-gone",
        "A member owns partitions that do not exist any more.",
        "The topic was deleted, or created again with fewer partitions. See that the topic is as "
        "it should be, then restart the member: a rebalance assigns the partitions that exist.",
        Severity.ERROR,
    )
    MISSING_STATIC_MEMBER = (
        "missing-static-member",
        "A static member is not there; its partitions wait until its session has expired.",
        "Start it, or remove it for good.",
        Severity.WARNING,
        (NextCommand("members remove GROUP --instance INSTANCE", Reach.LIVE),),
    )
    COORDINATOR_LOAD = (
        "coordinator-load",
        "One broker coordinates far more groups than the others.",
        "Partitions of __consumer_offsets decide: see that their leaders are spread evenly "
        "(elect preferred leaders), and that there are enough of them.",
        Severity.WARNING,
        (_OFFSETS_TOPIC,),
    )
    OFFSETS_TOPIC = (
        "offsets-topic",
        "__consumer_offsets is not kept as it should be: commits can be lost, or nobody "
        "coordinates.",
        "The topic should have many partitions, three replicas in sync, and "
        "cleanup.policy=compact.",
        Severity.ERROR,
        (_OFFSETS_TOPIC,),
    )
    BAD_REGISTRATION = (
        "bad-registration",
        "A consumer's node cannot be read; no consumer of the group can rebalance while it is "
        "there.",
        "Stop the client that wrote it, or delete the node; then restart the consumers.",
        Severity.ERROR,
    )
    BAD_OWNER = (
        "bad-owner",
        "An owner node cannot be read; nobody else can own the partition while it is there.",
        "Delete the node, and restart a consumer of the group.",
        Severity.ERROR,
    )
    BAD_OFFSET = (
        "bad-offset",
        "A committed offset is none: the consumer that gets the partition cannot rebalance where "
        "it is no number, and starts where auto.offset.reset leads where it is below 0.",
        "Write the offset that you want into the node, or delete it.",
        Severity.ERROR,
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
        Severity.ERROR,
    )
    OWNER_GONE = (
        "owner-gone",
        "The owner of a partition is no consumer of the group: nobody reads the partition, and "
        "nobody else can own it while the node is there.",
        "A node with a session goes with it; check again after a session timeout. Delete one that "
        "stays, and restart a consumer of the group.",
        Severity.ERROR,
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
    LEGACY_GROUP = (
        "legacy-group",
        "A group of consumers on ZooKeeper is left beside brokers that coordinate groups.",
        "Plan the way to Java's consumer; Kafka 4.0 and later have no ZooKeeper.",
        Severity.INFO,
        (NextCommand("plan new-consumer GROUP"),),
    )


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """Description of a rule; attributes as in `Rule`.

    Attributes:
        code: what it is called.
        severity: how bad it is.
        sentence: what it means.
        advice: what to do.
        commands: what to run next; GROUP, TOPIC, PARTITION and INSTANCE stand for what a finding is
            about.
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
class Finding:
    """A problem or possible improvement.

    Attributes:
        code: what it is.
        severity: how bad it is.
        basis: on which evidence it rests.
        group_id: id of the group; None where it is about the cluster.
        reason: what was found; in a sentence.
        advice: what to do; in a sentence or two.
        topic: topic concerned; None where it is none.
        partition: partition concerned; likewise.
        member_id: member concerned; likewise.
        broker: id of the broker concerned; likewise.
        offset: offset that is committed; where the finding is about it.
        log_start_offset: where the log begins: there `auto.offset.reset=earliest` leads.
        log_end_offset: where the log ends: there `auto.offset.reset=latest` leads.
        path: node of ZooKeeper concerned; it does not exist where nobody owns a partition.
        kafka_offset: zookeeper: offset that is committed in Kafka; where it is another one.
        since_ms: since when, as far as the source tells; of a commit or a group without members the
            last commit, of a node when it was written.
        evidence_from_ms: first time of what it rests on; the look before, or from when on the past
            was looked at; None of one look.
        evidence_to_ms: last time of what it rests on; likewise.
        commands: what to run next; commands of kgroup and Kafka's tools, ready to paste, with the
            connection options in use (of a secret only the name, as `KEY=...`; `HOST:PORT` where
            the brokers are not known).
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
    broker: int | None = None
    offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    path: str | None = None
    kafka_offset: int | None = None
    since_ms: int | None = None
    evidence_from_ms: int | None = None
    evidence_to_ms: int | None = None
    commands: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str | None, ...]:
        """Fields that identify the same finding in the next check, without its numbers."""
        partition = None if self.partition is None else str(self.partition)
        broker = None if self.broker is None else str(self.broker)
        return self.code, self.group_id, self.topic, partition, self.member_id, broker, self.path
