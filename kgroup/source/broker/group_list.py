"""Which groups there are, asked of every broker at once."""

from itertools import chain
from typing import Any

from kafka.protocol.admin.groups import ListGroupsRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.source.base import Question
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.coordinator import Coordinators, GroupCoordinator, Refusal
from kgroup.source.broker.error_code import COORDINATOR_MOVES
from kgroup.source.broker.group_api import group_state, group_type

__all__ = ["list_groups"]


async def list_groups(
    client: BrokerClient, coordinators: Coordinators, question: Question
) -> list[GroupCoordinator]:
    """Ask every broker that is known which groups it has; one that does not tell is blamed.

    Brokers filter by states and types as far as they can.

    Raises:
        BrokerError: none of them tells.
    """
    lists = await client.gather(_list_of(client, node, question) for node in client.brokers)
    failures = [answer for answer in lists if isinstance(answer, BrokerError)]
    if failures and len(failures) == len(lists):
        raise BrokerError(failures[0].kind, "; ".join(map(str, failures)))
    for failure in failures:
        coordinators.blame(failure)
    return list(chain.from_iterable(part for part in lists if isinstance(part, list)))


async def _list_of(client: BrokerClient, node: int, question: Question) -> list[GroupCoordinator]:
    version = await client.version(node, ListGroupsRequest)
    if version is None:
        text = f"broker {node} is of Kafka 0.8, which cannot list groups: name them"
        raise BrokerError(ProblemKind.UNSUPPORTED, text, node)
    fields: dict[str, Any] = {}
    if version >= 4:
        fields["states_filter"] = sorted(question.states)
    if version >= 5:
        fields["types_filter"] = sorted(question.types)
    backoff = Backoff(client, in_step=True)
    while True:
        answer = await client.ask(node, ListGroupsRequest, **fields)
        if not answer.error_code:
            break
        if answer.error_code not in COORDINATOR_MOVES or not await backoff.wait():
            text = f"broker {node} does not list its groups: {Refusal(answer.error_code)}"
            raise BrokerError(ProblemKind.DENIED, text, node)
    return [
        GroupCoordinator(
            listed.group_id,
            node,
            True,
            type_ := group_type(listed.group_type),
            group_state(listed.group_state, type_),
            listed.protocol_type or None,
        )
        for listed in answer.groups
    ]
