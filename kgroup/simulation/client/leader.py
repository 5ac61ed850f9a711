"""What the leader of a classic group does with what all members say.

Source: `ConsumerCoordinator.onLeaderElected` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.assignor.base import Assignment, Topic
from kgroup.assignor.spec import Software
from kgroup.assignor.strategy import assignor_of
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.simulation.client.config import ClientConfig
from kgroup.simulation.message import JoinAnswer
from kgroup.simulation.subscription import decode_subscription, encode_assignment


def subscribed_topics(answer: JoinAnswer) -> frozenset[str]:
    """Return all topics to which members subscribe.

    Raises:
        AssignorError: a subscription is none.
    """
    strategy = answer.protocol or ""
    subscribers = (decode_subscription(each, strategy) for each in answer.members)
    return frozenset(topic for each in subscribers for topic in each.topics)


def assignments(
    answer: JoinAnswer, partitions: Mapping[str, int], config: ClientConfig
) -> Mapping[str, bytes]:
    """Assign to all members, as the leader sends it, by member id.

    Args:
        answer: tells what members say.
        partitions: how many topics have.
        config: of the leader.

    Raises:
        AssignorError: the assignor gives up.
        UnknownStrategyError: Java's consumer has no such strategy.
    """
    strategy = answer.protocol or ""
    topics = {name: Topic(count) for name, count in partitions.items()}
    subscribers = [decode_subscription(each, strategy) for each in answer.members]
    software = Software(KAFKA_CLIENTS, config.assigns_as)
    assignor = assignor_of("classic", strategy, software, group_id=config.group_id)
    found: Assignment = assignor(subscribers, topics)
    version = config.subscription_version
    return {name: encode_assignment(each, version) for name, each in found.items()}
