"""Settings of brokers, topics and groups, as DescribeConfigs tells them (Kafka 0.11 and later).

What a broker is configured with, it alone tells; settings of a group any broker (4.0 and later).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka.protocol.admin.configs import DescribeConfigsRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.base import SettingReading
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.error_code import error_name, what_it_needs

_TOPIC, _BROKER, _GROUP = 2, 4, 32
"""Types of resources (`ConfigResource.Type`)."""
_WHAT = {_TOPIC: "topic", _BROKER: "broker", _GROUP: "group"}
_DENIED = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


async def read_broker_settings(client: BrokerClient, names: Collection[str]) -> SettingReading:
    """Ask every broker for its settings; see `SettingSource.broker_settings`."""
    await client.metadata([])
    brokers = list(client.brokers)
    answers = await client.gather(
        _ask(client, broker, _BROKER, str(broker), names) for broker in brokers
    )
    found: dict[int, Mapping[str, str]] = {}
    problems = []
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, BrokerError):
            problems.append(Problem(answer.kind, str(answer), broker=broker))
        else:
            found[broker] = answer
    return SettingReading(found, tuple(problems))


async def read_group_settings(
    client: BrokerClient, group_id: str, names: Collection[str]
) -> Mapping[str, str]:
    """Ask a broker for a group's settings; see `SettingSource.group_settings`."""
    await client.metadata([])
    return await _ask(client, None, _GROUP, group_id, names)


async def read_topic_settings(
    client: BrokerClient, topic: str, names: Collection[str]
) -> Mapping[str, str]:
    """Ask a broker for a topic's settings; see `SettingSource.topic_settings`."""
    await client.metadata([])
    return await _ask(client, None, _TOPIC, topic, names)


async def _ask(
    client: BrokerClient, node: int | None, type_: int, name: str, keys: Collection[str]
) -> Mapping[str, str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=type_, resource_name=name, configuration_keys=sorted(keys)
    )
    if node is None:
        answer = await client.ask_any(DescribeConfigsRequest, resources=[resource])
    else:
        answer = await client.ask(node, DescribeConfigsRequest, resources=[resource])
    settings: dict[str, str] = {}
    for result in answer.results:
        if code := result.error_code:
            needs = what_it_needs(code, "DESCRIBE_CONFIGS")
            raise BrokerError(
                ProblemKind.DENIED if code in _DENIED else ProblemKind.UNUSABLE,
                f"settings of {_WHAT[type_]} {name} are not told: {error_name(code)}"
                + (f" ({needs})" if needs else ""),
                node,
            )
        settings |= {each.name: each.value for each in result.configs if each.value is not None}
    return settings
