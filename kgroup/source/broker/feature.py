"""What a broker can do and how it is configured: versions of APIs, finalized features, settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from kgroup import __version__
from kgroup.errors import BrokerError, ProblemKind
from kgroup.source.base import BrokerFeatures
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.error_code import error_name, what_it_needs

__all__ = ["read_features"]

_BROKER, _GROUP = 4, 32
"""Types of resources (`ConfigResource.Type`)."""
_FINALIZED = 3
"""Version of ApiVersions from which on finalized features are told (KIP-584)."""
_CONSUMER_GROUP_HEARTBEAT = 68
"""Brokers that have this API have settings of groups, or say that they have none."""


async def read_features(
    client: BrokerClient, node: int, group_id: str, settings: Collection[str]
) -> BrokerFeatures:
    """Ask one broker; see `FeatureSource.features`.

    Raises:
        BrokerError: it cannot be asked.
    """
    if node not in client.brokers:
        await client.metadata(())
    version = await client.version(node, ApiVersionsRequest)
    if version is None:
        return BrokerFeatures({}, None, refused=("it has no ApiVersions API",))
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
    if await client.version(node, DescribeConfigsRequest) is None:
        return BrokerFeatures(apis, levels, refused=("it has no DescribeConfigs API",))
    wanted: list[tuple[int, str, Sequence[str] | None]] = [(_BROKER, str(node), sorted(settings))]
    if _CONSUMER_GROUP_HEARTBEAT in apis:
        wanted.append((_GROUP, group_id, None))
    # One request each: 3.9 refuses all of one that it does not like a part of.
    described = await client.gather_all(_describe(client, node, *each) for each in wanted)
    own, groups = (*described, None)[:2]
    refused = tuple(
        _refused(whose, each.error_code)
        for whose, each in (("its settings", own), ("settings of the group", groups))
        if each is not None and each.error_code
    )
    return BrokerFeatures(apis, levels, _values(own), _values(groups), refused)


async def _describe(
    client: BrokerClient, node: int, type_: int, name: str, keys: Sequence[str] | None
) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=type_, resource_name=name, configuration_keys=keys
    )
    answer = await client.ask(node, DescribeConfigsRequest, resources=[resource])
    if len(answer.results) != 1:
        text = f"broker {node} answered DescribeConfigs without {name}"
        raise BrokerError(ProblemKind.UNUSABLE, text, node)
    return answer.results[0]


def _refused(whose: str, code: int) -> str:
    needs = what_it_needs(code, "DESCRIBE_CONFIGS")
    return f"{whose}: {error_name(code)}" + (f" ({needs})" if needs else "")


def _values(answer: Any) -> dict[str, str] | None:
    """Return settings by name; secrets have no value."""
    if answer is None or answer.error_code:
        return None
    return {each.name: each.value for each in answer.configs if each.value is not None}
