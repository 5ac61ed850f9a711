"""`kgroup plan`, and the table of its commands."""

from __future__ import annotations

from kgroup.cli.lazy_group import CommandTable, LazyGroup

COMMANDS: CommandTable = {
    "assignor": ("plan.assignor", "Move groups to another strategy of their members."),
    "kafka-offsets": ("plan.kafka_offsets", "Move commits of consumers on ZooKeeper to Kafka."),
    "new-consumer": (
        "plan.new_consumer",
        "Replace consumers on ZooKeeper by Java's consumer of 0.9 and later.",
    ),
    "static-membership": (
        "plan.static_membership",
        "Give members of groups names that outlive restarts.",
    ),
    "partitions": ("plan.partitions", "Give a topic more partitions, and lose no record of it."),
    "consumer-protocol": (
        "plan.consumer_protocol",
        "Move groups to the consumer protocol (KIP-848), or back.",
    ),
    "external-offsets": (
        "plan.external_offsets",
        "Move offsets from Kafka to a table beside the results, or back.",
    ),
    "apply": ("plan.apply", "Copy the offsets that a step of a plan copies."),
    "verify": ("plan.verify", "Tell whether a step of a plan is done."),
}


command = LazyGroup(
    "kgroup plan",
    """Plan a migration of groups, step by step.

    A plan has preconditions, steps with what to set, to do and to see, ways back, and a forecast by
    the simulator of what each step costs. 'kgroup plan verify' compares a saved plan (-o json) with
    the group, and 'kgroup plan apply' copies offsets, with --execute, where a step does. All else
    sends nothing to anybody but requests that read.

    Without a target, 'kgroup plan GROUP...' tells which of them make sense for groups, and what
    each would save; 'kgroup plan --list' names them all. A group with the name of a target stands
    behind the options and two dashes: 'kgroup plan --sample -- assignor'.
    """,
    COMMANDS,
    "plan.advice",
)
