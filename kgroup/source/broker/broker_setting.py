"""What brokers can do (API versions, features) and how brokers, topics and groups are configured.

Settings come from DescribeConfigs (Kafka 0.11 and later). Only a broker itself returns its own
settings; any broker returns those of a topic, or of a group (4.0 and later).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kgroup import __version__
from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.base import BrokerFeatures, SettingReading
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.error_code import error_name, what_it_needs

_FINALIZED = 3
"""Version of ApiVersions from which on finalized features are told (KIP-584)."""


async def read_features(client: BrokerClient, node: int) -> BrokerFeatures:
    """Ask one broker; see `FeatureSource.features`.

    Raises:
        BrokerError: it cannot be asked.
    """
    if node not in client.brokers:
        await client.metadata(())
    version = await client.version(node, ApiVersionsRequest)
    if version is None:
        text = f"broker {node} has no ApiVersions API"
        raise BrokerError(ProblemKind.UNSUPPORTED, text, node)
    answer = await client.ask(
        node, ApiVersionsRequest, client_software_name="kgroup", client_software_version=__version__
    )
    if answer.error_code:
        name = error_name(answer.error_code)
        raise BrokerError(ProblemKind.UNUSABLE, f"broker {node} answered ApiVersions: {name}", node)
    apis = {each.api_key: each.max_version for each in answer.api_keys}
    levels = None
    if version >= _FINALIZED and answer.finalized_features_epoch >= 0:
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return BrokerFeatures(apis, levels)


async def find_unreachable(client: BrokerClient) -> dict[int, Problem]:
    """Connect to every broker; see `ReachSource.unreachable`.

    Raises:
        BrokerError: no broker answers.
    """
    brokers = list((await client.metadata(())).brokers)
    answers = await client.gather(client.version(broker, MetadataRequest) for broker in brokers)
    return {
        broker: Problem(answer.kind, str(answer), broker=broker)
        for broker, answer in zip(brokers, answers, strict=True)
        if isinstance(answer, BrokerError)
    }


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
