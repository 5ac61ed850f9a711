"""What a broker can do: answer; versions of its APIs; the features that its cluster agreed on."""

from __future__ import annotations

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kgroup import __version__
from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.source.base import BrokerFeatures
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.error_code import error_name

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
