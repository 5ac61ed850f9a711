"""Requests to the brokers of one cluster: connections, versions, retries, time limits.

Of kafka-python, the connections, event loop and messages are used, but none of its clients: those
refresh metadata in the background, with requests that may create topics, and wait for responses
that are not needed. Everything here runs on its event loop, in the thread that calls
`BrokerClient.run`.

A failure of a broker is a `BrokerError`. After a disconnect a request is retried a few times. A
broker that timed out, or rejected the client, is not contacted again: later requests to it fail
immediately, so that one bad broker costs its timeout only once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, ParamSpec, TypeVar

import kafka.errors as kafka_errors
from kafka.future import Future
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from kgroup.errors import BrokerError, KgroupError, ProblemKind
from kgroup.interrupt import kept_signals
from kgroup.model.cluster import ClusterView, Partition, Topic
from kgroup.model.group import Broker, server_text
from kgroup.protocol.message.primitives import no_string, uuid_text
from kgroup.source.broker.answer_check import null_field
from kgroup.source.broker.connection import BROKEN, ConnectionManager, TooSlow, connection_error
from kgroup.source.broker.error_code import error_name
from kgroup.source.deadline import Deadline

P = ParamSpec("P")
T = TypeVar("T")

IN_FLIGHT = 5
"""Maximum requests in flight per connection: the broker processes one while the rest is in
transit.
"""
ATTEMPTS = 3
"""Number of attempts to send a request when connections break."""
FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 1.0
SOON_S = 1.0
"""Seconds within which a broker of 0.10 or later answers ApiVersions; after that it may be 0.9."""
LARGEST_ANSWER = 128 << 20
"""Largest accepted response, in bytes.

kafka-python's own limit, 1 MB, is less than a large cluster's metadata.
"""
_NOBODY = "AAAAAAAAAAAAAAAAAAAAAA"
_BEFORE_API_VERSIONS = ((0, 9), (0, 8, 2))
_LEAST_S = 0.1
"""Minimum wait, in seconds, for responses that may already have arrived."""
_LAST_SHARE = 0.8
"""Share of the remaining time for the last bootstrap server."""
_CANONICAL = "resolve_canonical_bootstrap_servers_only"


class BrokerClient:
    """The brokers of one cluster; a context manager.

    Attributes:
        deadline: limits all waiting.
        has_given_up: whether a request was retried until its time was up; see `Backoff`.
        brokers: brokers by id, from the last response to `metadata`.
        cluster_id: cluster id, from the last response to `metadata`; None before Kafka 0.10.1.
    """

    def __init__(self, bootstrap: str | Sequence[str], deadline: Deadline, **options: Any) -> None:
        """Create a client that is not connected yet.

        Args:
            bootstrap: "host:port", or several of them, separated by commas or in a list.
            deadline: time limit.
            options: options of kafka-python: `security_protocol`, `sasl_mechanism`, `ssl_cafile`,
                ….
        """
        servers = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
        self.bootstrap = [server.strip() for server in servers if server.strip()]
        self.deadline = deadline
        self.has_given_up = False
        self.brokers: Mapping[int, Broker] = {}
        self.cluster_id: str | None = None
        self._net = NetworkSelector(client_id="kgroup", slow_task_threshold_secs=0)
        self.options = options
        self._manager = self._new_manager()
        self._topics: dict[str, Topic] = {}
        self._links: dict[int | str, _Link] = {}
        self._bootstrap_link: _Link | None = None

    def __enter__(self) -> BrokerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._manager.close()
        self._net.close()

    def run(
        self, main: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an asynchronous function, and the tasks that it starts, to completion.

        The coroutine is created here, so that no signal arrives between its creation and its start.
        """
        self.deadline.heard()  # time outside the event loop was not spent waiting for brokers
        with kept_signals(self._net.wakeup) as kept:
            future = self._net.call_soon_with_future(partial(main, *args, **kwargs))
            while not (future.is_done or kept):
                self._net.poll()
        if kept:
            raise kept[0]
        if future.exception is not None:
            raise future.exception
        result: T = future.value
        return result

    def forgive(self) -> None:
        """Contact failed brokers again, and refresh known topics when they are next needed."""
        self.has_given_up = False
        self._topics.clear()
        for link in (*self._links.values(), self._bootstrap_link):
            if link is not None:
                link.trouble = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Any:
        """Start a coroutine in the background; return the future of its result."""
        return self._net.call_soon_with_future(coroutine)

    async def first(self, futures: Iterable[Any]) -> None:
        """Wait until one of these futures is done."""
        done = Future()
        for future in futures:
            future.add_both(lambda _: done.is_done or done.success(None))
        await done

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T | BrokerError]:
        """Run coroutines concurrently; return the result of each, or its BrokerError."""
        futures = [self.start(coroutine) for coroutine in coroutines]
        results: list[T | BrokerError] = []
        for future in futures:
            try:
                results.append(await future)
            except BrokerError as error:
                results.append(error)
        return results

    async def gather_all(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines concurrently; when all are done, raise the first BrokerError, if any."""
        results = []
        for result in await self.gather(coroutines):
            if isinstance(result, BrokerError):
                raise result
            results.append(result)
        return results

    def broker(self, node: int | None) -> Broker | None:
        """Return the broker with this id; None if unknown."""
        return None if node is None else self.brokers.get(node)

    async def sleep(self, seconds: float) -> None:
        """Suspend the coroutine for a time."""
        await self._net.sleep(seconds)

    async def connect(self) -> None:
        """Connect to the first bootstrap server that answers.

        Raises:
            BrokerError: no server answers; the message has the reason for each.
        """
        if self.options.get("client_dns_lookup") == _CANONICAL:
            await self._take_canonical_names()
        reasons = []
        nodes = self._manager.cluster.bootstrap_brokers()
        order = {server: index for index, server in enumerate(self.bootstrap)}
        nodes.sort(key=lambda node: order.get(server_text(node.host, node.port), len(order)))
        for index, node in enumerate(nodes):
            left = self.deadline.left_s / (len(nodes) - index)
            patience = min(self.deadline.patience_s, left)
            if index == len(nodes) - 1:  # no other server to save time for
                patience = max(patience, _LAST_SHARE * left)
            try:
                self._bootstrap_link = await self._greet(node, patience)
                return
            except BrokerError as error:
                reasons.append(error)
        kind = reasons[0].kind if len(reasons) == 1 else ProblemKind.UNREACHABLE
        raise BrokerError(kind, "; ".join(map(str, reasons)) or "no bootstrap server was given")

    async def _take_canonical_names(self) -> None:
        try:
            self.bootstrap = await self._manager.canonical_servers(
                self.bootstrap, self.deadline.patience_s
            )
        except TooSlow as error:
            raise connection_error(error, ",".join(self.bootstrap), self.options) from None
        self._manager = self._new_manager()

    async def _greet(self, node: Any, patience: float) -> _Link:
        """Connect, and detect the API versions of the broker.

        Brokers before 0.10 do not know ApiVersions. 0.8 closes the connection. 0.9 stops
        responding, so after a while an older request is sent over a second connection. The first
        connection waits at most `patience` seconds for a broker that does not respond.
        """
        end = monotonic() + patience
        address = server_text(node.host, node.port)
        link = _Link(self, self._manager, node.node_id, address)
        if self._manager.broker_version_data is not None:  # the user has configured api_version
            await link.open(patience)
            return link
        for first_s in (SOON_S, None):
            try:
                await link.open(patience, first_s=first_s)
                return link
            except BrokerError as error:
                trouble = error
            if trouble.kind is not ProblemKind.SILENT or link.was_reached:
                break  # otherwise the network is slow
        if (
            trouble.kind not in (ProblemKind.SILENT, ProblemKind.DISCONNECTED)
            or not link.was_reached
        ):
            raise trouble
        for version in _BEFORE_API_VERSIONS:
            manager = self._new_manager(api_version=version)
            old = _Link(self, manager, _same_node(manager, node), address)
            try:
                await old.open(max(end - monotonic(), _LEAST_S))
                if version == (0, 9):
                    await old.send(ListGroupsRequest, 0, {})
                else:
                    await old.send(MetadataRequest, 0, {"topics": []})
            except BrokerError as error:
                manager.close()
                if error.kind is ProblemKind.SILENT:  # the unknown request is not the cause
                    break
                continue
            if trouble.kind is ProblemKind.SILENT:  # the first connection may just have been slow
                await self.sleep(FIRST_BACKOFF_S)
                if link.is_open:
                    return link
            self._manager = manager
            return old
        if trouble.kind is ProblemKind.DISCONNECTED:
            raise trouble
        try:
            await link.open(max(end - monotonic(), _LEAST_S))
        except BrokerError as error:
            if error.kind is not ProblemKind.SILENT:
                raise
            raise BrokerError(
                ProblemKind.SILENT, f"{address} did not answer within {patience:.1f} s"
            ) from None
        return link

    def _new_manager(self, **options: Any) -> Any:
        """Create kafka-python's connection manager."""
        return ConnectionManager(
            self._net,
            **{
                "client_id": "kgroup",
                **self.options,
                **options,
                "bootstrap_servers": self.bootstrap,
                "receive_message_max_bytes": LARGEST_ANSWER,
                "reconnect_backoff_ms": 0,  # `Backoff` waits instead
                "max_in_flight_requests_per_connection": 1 << 30,  # `Window` bounds them
            },
        )

    async def version(self, node: int, kind: Any, highest: int | None = None) -> int | None:
        """Return the version of a request to use with a broker; None if it lacks the API.

        Raises:
            BrokerError: the broker cannot be reached.
        """
        link = self._link(node)
        await link.open(self.deadline.patience_s)
        return link.version(kind, highest)

    async def ask(self, node: int, kind: Any, *, highest: int | None = None, **fields: Any) -> Any:
        """Send a request, of version `highest` at most; connect first if necessary.

        Raises:
            BrokerError: the broker does not answer.
        """
        return await self._ask(self._link(node), kind, highest, fields)

    async def ask_once(
        self, node: int, kind: Any, *, highest: int | None = None, **fields: Any
    ) -> Any:
        """Send a request that changes something; never retry it.

        It waits all the remaining time for the response, without which the outcome is unknown:
        coordinators themselves wait 5 s for replicas (`offsets.commit.timeout.ms`).

        Raises:
            BrokerError: the broker does not answer; if `was_sent`, it may still have processed the
                request.
        """
        return await self._ask(self._link(node), kind, highest, fields, once=True)

    async def ask_any(self, kind: Any, *, highest: int | None = None, **fields: Any) -> Any:
        """Send a request to any reachable broker, connected ones first."""
        links = sorted(
            (self._link(node) for node in self.brokers),
            key=lambda link: (link.trouble is not None, link.connection is None),
        )
        if self._bootstrap_link is not None and self._bootstrap_link not in links:
            links.insert(0, self._bootstrap_link)
        for link in links[:-1]:
            try:
                return await self._ask(link, kind, highest, fields)
            except BrokerError as error:
                if error.kind is ProblemKind.UNSUPPORTED:
                    raise
        return await self._ask(links[-1], kind, highest, fields)

    async def any_version(self, kind: Any) -> int | None:
        """Return the version of a request to use with the bootstrap server."""
        assert self._bootstrap_link is not None
        return self._bootstrap_link.version(kind, None)

    async def _ask(
        self,
        link: _Link,
        kind: Any,
        highest: int | None,
        fields: Mapping[str, Any],
        *,
        once: bool = False,
    ) -> Any:
        backoff = Backoff(self)
        attempts = 1 if once else ATTEMPTS
        for attempt in range(attempts):
            try:
                await link.open(self.deadline.patience_s)
                version = link.version(kind, highest)
                if version is None:
                    raise link.error(ProblemKind.UNSUPPORTED, f"has no {_api_name(kind)} API")
                return await link.send(kind, version, fields, patiently=once)
            except BrokerError as error:
                if error.kind not in BROKEN:
                    raise
                if attempt == attempts - 1 or not await backoff.wait(str(link)):
                    raise
        raise AssertionError

    async def metadata(self, topics: Iterable[str] | None) -> ClusterView:
        """Request the brokers, and these topics or (None) all topics. No topic is created.

        Raises:
            BrokerError: no broker answers.
        """
        # Before version 4, a request that names a topic may create it: request all topics instead.
        version = await self.any_version(MetadataRequest)
        wanted = None
        if topics is not None:  # a name that cannot be encoded cannot exist
            wanted = sorted(name for name in {*topics} if no_string(name) is None)
        if version is None or version < 4:
            named: Any = None if version or wanted is None or wanted else []
        else:
            topic = MetadataRequest.MetadataRequestTopic
            named = None if wanted is None else [topic(name=name) for name in wanted]
        if version == 0:
            named = []  # in version 0, this means all topics
        fields = {} if (version or 0) < 4 else {"allow_auto_topic_creation": False}
        answer = await self.ask_any(MetadataRequest, topics=named, **fields)
        self._manager.cluster.update_metadata(answer)
        view = _view(answer)
        self.brokers = view.brokers
        self.cluster_id = view.cluster_id
        self._topics |= view.topics
        self._adopt_bootstrap()
        return view

    async def topics(self, names: Iterable[str]) -> Mapping[str, Topic]:
        """Return cached topics, after refreshing those that need it.

        Topics are refreshed if they are not cached, had an error, or had a partition without a
        leader, as a leader may have been elected since.

        Raises:
            BrokerError: no broker answers.
        """
        if leaderless := {name for name in names if not _has_leaders(self._topics.get(name))}:
            await self.metadata(leaderless)
        return self._topics

    def _adopt_bootstrap(self) -> None:
        """Use the bootstrap connection also for the broker with the same address."""
        link = self._bootstrap_link
        for broker in self.brokers.values():
            if link is not None and broker.address == link.address and broker.id not in self._links:
                link.broker_id = broker.id
                self._links[broker.id] = link

    def _link(self, node: int) -> _Link:
        link = self._links.get(node)
        if link is None:
            broker = self.brokers.get(node)
            address = (broker and broker.address) or "address unknown"
            link = self._links[node] = _Link(self, self._manager, node, address)
        return link


def _same_node(manager: Any, node: Any) -> Any:
    """Return a bootstrap server's id in a manager; each manager shuffles before it numbers them."""
    return next(
        broker.node_id
        for broker in manager.cluster.bootstrap_brokers()
        if (broker.host, broker.port) == (node.host, node.port)
    )


class Backoff:
    """Growing pauses between attempts, for at most the deadline's timeout in total.

    A command sends requests in several steps. With `in_step`, once a step has waited in vain, later
    steps do not wait again until `BrokerClient.forgive`; otherwise each would use the whole
    timeout.
    """

    def __init__(self, client: BrokerClient, *, in_step: bool = False) -> None:
        self._client = client
        self._in_step = in_step
        is_over = in_step and client.has_given_up
        self._end = monotonic() + (0 if is_over else client.deadline.timeout_s)
        self._pause_s = FIRST_BACKOFF_S

    async def wait(self, what: str, *, leaves_time: bool = False) -> bool:
        """Pause and return True if there is time for another attempt, otherwise return False.

        Args:
            what: what the pause waits for.
            leaves_time: reserve the time of one response for other requests.
        """
        pause_s, deadline = self._pause_s, self._client.deadline
        left_s = deadline.left_s - (deadline.patience_s if leaves_time else 0)
        if min(self._end - monotonic(), left_s) <= pause_s:
            self._client.has_given_up |= self._in_step
            return False
        self._pause_s = min(2 * pause_s, LAST_BACKOFF_S)
        deadline.waited(what, pause_s)
        await self._client.sleep(pause_s)
        return True


class _Link:
    """The link to one broker: at most one connection, and the outcome of earlier attempts."""

    def __init__(self, client: BrokerClient, manager: Any, node: int | str, address: str) -> None:
        self.address = address
        self.broker_id = node if isinstance(node, int) else None
        self.connection: Any = None
        self.trouble: BrokerError | None = None
        self._node = node
        self._client = client
        self._manager = manager
        self._window = Window(IN_FLIGHT)
        self._has_answered = False

    def __str__(self) -> str:
        if self.broker_id is None:
            return self.address
        return f"broker {self.broker_id} ({self.address})"

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.connection is not None and bool(self.connection.connected)

    @property
    def was_reached(self) -> bool:
        """Whether a connection was ever established, even if it was then closed."""
        return self.connection is not None and self.connection.parser is not None

    async def open(self, patience: float, *, first_s: float | None = None) -> None:
        """Connect if necessary; a broker that takes too long is not tried again.

        With `first_s` the call returns earlier, while connecting continues for up to `patience`
        seconds; another call can wait for it.
        """
        if self.trouble is not None:
            raise BrokerError(self.trouble.kind, str(self.trouble), self.broker_id)
        if self.is_open:
            return
        is_last = first_s is None
        patience = min(patience, self._client.deadline.left_s)
        wait_s = patience if first_s is None else min(patience, first_s)
        try:
            if self.connection is None or self.connection.closed:
                self.connection = self._manager.get_connection(
                    self._node, timeout_ms=1000 * patience, refresh_metadata_on_err=False
                )
            await self._manager.wait_for(self.connection.init_future, 1000 * wait_s)
        except kafka_errors.KafkaTimeoutError as error:
            if not self.connection.init_future.is_done:  # the wait timed out, not the connection
                silent = self._silence(wait_s)
                if is_last:
                    self.connection.close(kafka_errors.KafkaConnectionError("given up"))
                    self.trouble = silent
                raise silent from None
            raise self._failure(error, is_last=is_last) from None
        except kafka_errors.UnknownBrokerIdError:
            text = "is no longer part of the cluster"
            raise self.error(ProblemKind.UNREACHABLE, text) from None
        except (TypeError, ValueError) as error:  # raised by kafka-python for ApiVersions
            text = f"does not report its API versions: {error}"
            raise self.error(ProblemKind.UNUSABLE, text) from None
        except (kafka_errors.KafkaError, KgroupError, RuntimeError) as error:
            raise self._failure(error, is_last=is_last) from None

    def version(self, kind: Any, highest: int | None) -> int | None:
        """Return the newest version that the broker and kafka-python share, up to `highest`."""
        bound = kind.max_version if highest is None else highest
        try:
            known = self.connection.broker_version_data
            version: int = known.api_version(kind, max_version=bound)
        except kafka_errors.IncompatibleBrokerVersion:
            return None
        return version

    async def send(
        self, kind: Any, version: int, fields: Mapping[str, Any], *, patiently: bool = False
    ) -> Any:
        """Send one request over the open connection."""
        async with self._window:
            # The connection, or the time limit, may have ended while this request was queued.
            was_sent = self.is_open and self._client.deadline.left_s > 0
            try:
                return await self._sent(kind, version, fields, patiently=patiently)
            except BrokerError as error:
                if error.kind is not ProblemKind.THROTTLED:  # throttled requests are not sent
                    error.was_sent = was_sent
                raise

    async def _sent(
        self, kind: Any, version: int, fields: Mapping[str, Any], *, patiently: bool
    ) -> Any:
        """Send it, and wait for the response."""
        deadline = self._client.deadline
        patience = deadline.left_s
        if not patiently:
            patience = min(deadline.patience_s, patience)
        request = kind(version=version, **fields)
        sent = self.connection.send_request(request, request_timeout_ms=1000 * patience)
        try:
            answer = await sent
        except (kafka_errors.RequestTimedOutError, kafka_errors.KafkaTimeoutError):
            self.trouble = self._silence(patience, f" {_api_name(kind)}")
            raise self.trouble from None
        except kafka_errors.NodeNotReadyError:
            reason = (
                "is holding requests back, since a quota is used up; try again later, or with "
                "a longer --timeout"
            )
            raise self.error(ProblemKind.THROTTLED, reason) from None
        except kafka_errors.KafkaConnectionError as error:
            if not self._has_answered:
                raise self._failure(error) from None
            raise self.error(ProblemKind.DISCONNECTED, "closed the connection") from None
        except kafka_errors.KafkaError as error:
            raise self._failure(error) from None
        self._has_answered = True
        deadline.heard()
        if (name := null_field(answer, version)) is not None:
            reason = f"answered {_api_name(kind)} with null for {name}, never null"
            raise self.error(ProblemKind.UNUSABLE, reason)
        return answer

    def _silence(self, waited_s: float, api: str = "") -> BrokerError:
        """Return the error of a broker that timed out, or for which no time was left."""
        deadline = self._client.deadline
        limit = f"the time limit of {deadline.timeout_s:g} s"
        spent = deadline.longest_wait
        if waited_s < _LEAST_S:
            reason = f"was not asked{api}: {limit} had been used up{spent}"
        elif deadline.left_s < _LEAST_S and waited_s < deadline.patience_s - _LEAST_S:
            reason = f"did not answer{api} within {waited_s:.1f} s, the rest of {limit}{spent}"
        else:
            reason = f"did not answer{api} within {waited_s:.1f} s"
        deadline.waited(str(self), waited_s)
        return self.error(ProblemKind.SILENT, reason)

    def error(self, kind: ProblemKind, text: str) -> BrokerError:
        """Return an error about this broker."""
        return BrokerError(kind, f"{self} {text}", self.broker_id)

    def _failure(self, error: Exception, *, is_last: bool = True) -> BrokerError:
        """Return an error that explains a failure; the link keeps it if a retry cannot help."""
        failure = connection_error(error, str(self), self._client.options, self.broker_id)
        if not isinstance(failure, BrokerError):  # such as an error of the token endpoint
            failure = BrokerError(ProblemKind.REFUSED, str(failure), self.broker_id)
        mendable = {ProblemKind.DISCONNECTED, ProblemKind.UNREACHABLE}
        if not is_last:
            mendable.add(ProblemKind.SILENT)
        if failure.kind not in mendable:
            self.trouble = failure
        return failure


class Window:
    """Limits concurrency, first come first served; an asynchronous context manager."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[Any] = deque()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
        else:
            turn = Future()
            self._waiting.append(turn)
            await turn

    async def __aexit__(self, *_: object) -> None:
        if self._waiting:
            self._waiting.popleft().success(None)
        else:
            self._free += 1


def _api_name(kind: Any) -> str:
    return str(kind.__name__).removesuffix("Request")


def _has_leaders(topic: Topic | None) -> bool:
    """Return whether a topic exists, and all its partitions have leaders."""
    return (
        topic is not None
        and topic.error is None
        and all(partition.leader is not None for partition in topic.partitions.values())
    )


def _view(answer: Any) -> ClusterView:
    brokers = {
        broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in answer.brokers
    }
    topics = {}
    for topic in answer.topics:
        topic_id = uuid_text(topic.topic_id.bytes) if topic.topic_id is not None else _NOBODY
        topics[topic.name] = Topic(
            topic.name,
            None if topic_id == _NOBODY else topic_id,
            {
                partition.partition_index: Partition(
                    None if partition.leader_id < 0 else partition.leader_id,
                    tuple(partition.replica_nodes),
                    tuple(partition.isr_nodes),
                )
                for partition in topic.partitions
            },
            error_name(topic.error_code) if topic.error_code else None,
        )
    controller = answer.controller_id
    return ClusterView(
        answer.cluster_id,
        None if controller is None or controller < 0 else controller,
        dict(sorted(brokers.items())),
        topics,
    )
