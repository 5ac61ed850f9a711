"""Requests to the brokers of one cluster: connections, versions, retries, and an end to waiting.

kafka-python's connections, event loop and messages are used, none of its clients: those refresh
metadata by themselves, with requests that may create topics, and wait for what nobody asked for.
Everything here runs on its event loop, in the thread that calls `BrokerClient.run`.

What goes wrong with a broker is a `BrokerError`. Disconnects are tried again a few times. A broker
that was silent once, or does not let us in, is not asked again: what needs it fails at once, so
one bad broker costs its waiting time once.
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
"""Requests on one connection at a time: the broker works on one, the rest is on its way."""
ATTEMPTS = 3
"""How often a request is sent when connections break."""
FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 1.0
SOON_S = 1.0
"""Within which a broker that knows the question tells what it speaks, else it may be of 0.9."""
LARGEST_ANSWER = 128 << 20
"""Bytes; kafka-python's own bound, 1 MB, is less than a large cluster's metadata."""
_NOBODY = "AAAAAAAAAAAAAAAAAAAAAA"
_BEFORE_API_VERSIONS = ((0, 9), (0, 8, 2))
_LEAST_S = 0.1
"""For what may be there already."""
_LAST_SHARE = 0.8
"""Of the time that is left, for the last of the brokers that may be asked first of all."""
_CANONICAL = "resolve_canonical_bootstrap_servers_only"


class BrokerClient:
    """The brokers of one cluster; a context manager.

    Attributes:
        deadline: bounds all waiting.
        has_given_up: whether something has been asked for again and again, until the time for that
            was over; see `Backoff`.
        brokers: by id, as the last answer to `metadata` had them.
        cluster_id: likewise; None before Kafka 0.10.1.
    """

    def __init__(self, bootstrap: str | Sequence[str], deadline: Deadline, **options: Any) -> None:
        """Connect to nothing yet.

        Args:
            bootstrap: "host:port", several of them separated by commas or in a list.
            deadline: when to give up.
            options: kafka-python's own: `security_protocol`, `sasl_mechanism`, `ssl_cafile`, ….
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
        """Run an asynchronous function, and what it starts, until it is done.

        Its coroutine is made here, so that no signal comes between that and its start.
        """
        self.deadline.heard()  # nobody has been waited for meanwhile
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
        """Ask brokers again that were given up, and for topics that are known."""
        self.has_given_up = False
        self._topics.clear()
        for link in (*self._links.values(), self._bootstrap_link):
            if link is not None:
                link.trouble = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Any:
        """Let a coroutine run beside others; give the future of its result."""
        return self._net.call_soon_with_future(coroutine)

    async def first(self, futures: Iterable[Any]) -> None:
        """Wait until one of these futures is done."""
        done = Future()
        for future in futures:
            future.add_both(lambda _: done.is_done or done.success(None))
        await done

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T | BrokerError]:
        """Run coroutines side by side; a broker's failure stands in the place of the result."""
        futures = [self.start(coroutine) for coroutine in coroutines]
        results: list[T | BrokerError] = []
        for future in futures:
            try:
                results.append(await future)
            except BrokerError as error:
                results.append(error)
        return results

    async def gather_all(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines side by side; when all are done, the first failure of a broker counts."""
        results = []
        for result in await self.gather(coroutines):
            if isinstance(result, BrokerError):
                raise result
            results.append(result)
        return results

    def broker(self, node: int | None) -> Broker | None:
        """Return the broker of this id, where one is known."""
        return None if node is None else self.brokers.get(node)

    async def sleep(self, seconds: float) -> None:
        """Let others work for a while."""
        await self._net.sleep(seconds)

    async def connect(self) -> None:
        """Find a broker that answers among the bootstrap servers.

        Raises:
            BrokerError: there is none; the text has the reason for each of them.
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
            if index == len(nodes) - 1:  # there is nobody else for whom to save time
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
        """Connect, and find out what the broker speaks.

        Brokers before 0.10 do not know the question. 0.8 closes the connection; 0.9 says nothing
        more, so that after a while it is asked something that it knows, over a second connection.
        A broker that is silent is waited for no longer than `patience` over the first one.
        """
        end = monotonic() + patience
        address = server_text(node.host, node.port)
        link = _Link(self, self._manager, node.node_id, address)
        if self._manager.broker_version_data is not None:  # the user says what it speaks
            await link.open(patience)
            return link
        for first_s in (SOON_S, None):
            try:
                await link.open(patience, first_s=first_s)
                return link
            except BrokerError as error:
                trouble = error
            if trouble.kind is not ProblemKind.SILENT or link.was_reached:
                break  # else it is the way that takes long
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
                if error.kind is ProblemKind.SILENT:  # it is not the question
                    break
                continue
            if trouble.kind is ProblemKind.SILENT:  # or had it only been slow?
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
        """Make kafka-python's manager of connections."""
        return ConnectionManager(
            self._net,
            **{
                "client_id": "kgroup",
                **self.options,
                **options,
                "bootstrap_servers": self.bootstrap,
                "receive_message_max_bytes": LARGEST_ANSWER,
                "reconnect_backoff_ms": 0,  # the waiting is done here
                "max_in_flight_requests_per_connection": 1 << 30,  # `Window` bounds them
            },
        )

    async def version(self, node: int, kind: Any, highest: int | None = None) -> int | None:
        """Tell the version of a request that is used with a broker; None where it has no such API.

        Raises:
            BrokerError: the broker cannot be reached.
        """
        link = self._link(node)
        await link.open(self.deadline.patience_s)
        return link.version(kind, highest)

    async def ask(self, node: int, kind: Any, *, highest: int | None = None, **fields: Any) -> Any:
        """Send a request, of version `highest` at most, over a new connection if need be.

        Raises:
            BrokerError: there is no answer.
        """
        return await self._ask(self._link(node), kind, highest, fields)

    async def ask_once(
        self, node: int, kind: Any, *, highest: int | None = None, **fields: Any
    ) -> Any:
        """Send a request likewise, but never again: one that changes something.

        All the time that is left is waited for the answer, since without it nobody knows the end;
        coordinators wait 5 s for replicas themselves (`offsets.commit.timeout.ms`).

        Raises:
            BrokerError: there is no answer; the broker may have done what was asked all the same,
                where `was_sent` says so.
        """
        return await self._ask(self._link(node), kind, highest, fields, once=True)

    async def ask_any(self, kind: Any, *, highest: int | None = None, **fields: Any) -> Any:
        """Ask any broker that can be reached, those first to which there are connections."""
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
        """Tell the version of a request that the bootstrap server takes."""
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
        """Ask for the brokers, and for these topics or (None) all; no topic is created by it.

        Raises:
            BrokerError: no broker answers.
        """
        # Before version 4 a request that names a topic may create it: all are asked for instead.
        version = await self.any_version(MetadataRequest)
        wanted = None
        if topics is not None:  # by a name that no request can hold there is none
            wanted = sorted(name for name in {*topics} if no_string(name) is None)
        if version is None or version < 4:
            named: Any = None if version or wanted is None or wanted else []
        else:
            topic = MetadataRequest.MetadataRequestTopic
            named = None if wanted is None else [topic(name=name) for name in wanted]
        if version == 0:
            named = []  # which is all, there
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
        """Give topics as they were when they were asked for last, if all was well with them then.

        Those that were never asked for, or had an error or a partition without leader, are asked
        for: leaders may have been chosen since.

        Raises:
            BrokerError: no broker answers.
        """
        if leaderless := {name for name in names if not _has_leaders(self._topics.get(name))}:
            await self.metadata(leaderless)
        return self._topics

    def _adopt_bootstrap(self) -> None:
        """Use the bootstrap connection for the broker of that address, instead of a second one."""
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
    """Return the id of a bootstrap server with a manager: each shuffles them before it counts."""
    return next(
        broker.node_id
        for broker in manager.cluster.bootstrap_brokers()
        if (broker.host, broker.port) == (node.host, node.port)
    )


class Backoff:
    """Growing pauses between attempts, for as long as the deadline's timeout at most.

    A command asks in several steps. With `in_step` the next steps do not wait again, once one of
    them has waited in vain, until `BrokerClient.forgive`: else each would take the whole timeout.
    """

    def __init__(self, client: BrokerClient, *, in_step: bool = False) -> None:
        self._client = client
        self._in_step = in_step
        is_over = in_step and client.has_given_up
        self._end = monotonic() + (0 if is_over else client.deadline.timeout_s)
        self._pause_s = FIRST_BACKOFF_S

    async def wait(self, what: str, *, leaves_time: bool = False) -> bool:
        """Wait, and tell that there is time for another attempt; False at once where not.

        Args:
            what: is waited for.
            leaves_time: as much as for one answer: for what else is to be asked.
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
    """The way to one broker: at most one connection, and what was learnt when it was tried."""

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
        """Whether there was ever a connection, if only to be closed again."""
        return self.connection is not None and self.connection.parser is not None

    async def open(self, patience: float, *, first_s: float | None = None) -> None:
        """Make sure that there is a connection; a broker that takes too long is given up.

        With `first_s` the call ends sooner, and the connection is still being made for `patience`:
        another call waits for it.
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
            if not self.connection.init_future.is_done:  # it is the waiting that is over
                silent = self._silence(wait_s)
                if is_last:
                    self.connection.close(kafka_errors.KafkaConnectionError("given up"))
                    self.trouble = silent
                raise silent from None
            raise self._failure(error, is_last=is_last) from None
        except kafka_errors.UnknownBrokerIdError:
            text = "is not part of the cluster any more"
            raise self.error(ProblemKind.UNREACHABLE, text) from None
        except (TypeError, ValueError) as error:  # of kafka-python, over ApiVersions
            text = f"does not tell what it speaks: {error}"
            raise self.error(ProblemKind.UNUSABLE, text) from None
        except (kafka_errors.KafkaError, KgroupError, RuntimeError) as error:
            raise self._failure(error, is_last=is_last) from None

    def version(self, kind: Any, highest: int | None) -> int | None:
        """Tell the newest version that the broker and kafka-python share, up to `highest`."""
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
            # The connection, or the time, may have ended while others had their turn.
            was_sent = self.is_open and self._client.deadline.left_s > 0
            try:
                return await self._sent(kind, version, fields, patiently=patiently)
            except BrokerError as error:
                if error.kind is not ProblemKind.THROTTLED:  # which means that it was held back
                    error.was_sent = was_sent
                raise

    async def _sent(
        self, kind: Any, version: int, fields: Mapping[str, Any], *, patiently: bool
    ) -> Any:
        """Send it, and wait for the answer."""
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
        """Make the error of a broker that did not answer in time, or was not given any."""
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
        """Make an error of what this broker does."""
        return BrokerError(kind, f"{self} {text}", self.broker_id)

    def _failure(self, error: Exception, *, is_last: bool = True) -> BrokerError:
        """Explain an error; what another attempt cannot mend stays with the broker."""
        failure = connection_error(error, str(self), self._client.options, self.broker_id)
        if not isinstance(failure, BrokerError):  # of the configuration, a token's source, say
            failure = BrokerError(ProblemKind.REFUSED, str(failure), self.broker_id)
        mendable = {ProblemKind.DISCONNECTED, ProblemKind.UNREACHABLE}
        if not is_last:
            mendable.add(ProblemKind.SILENT)
        if failure.kind not in mendable:
            self.trouble = failure
        return failure


class Window:
    """Lets so many in at a time, in order; an asynchronous context manager."""

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
    """Return whether a topic was there, and all its partitions had leaders."""
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
