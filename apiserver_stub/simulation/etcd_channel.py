"""Channels of the store's client to the members of the simulated etcd cluster, instead of gRPC, with their faults."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

import grpc
import grpc.aio

from apiserver_stub.simulation.etcd import Etcd, EtcdError
from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc
from nodeagent.base.simulation.latency import Latency
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop

_KEEPALIVE_SECONDS = 40.0
"""Time after which gRPC closes a connection that receives nothing."""
_NO_LEADER_SECONDS = 7.0
_MERGED = 0.3
"""Probability that etcd adds an event to a response that it has not sent yet."""
_READS = ("Range", "Status")


def _rpc_error(code: grpc.StatusCode, text: str) -> grpc.aio.AioRpcError:
    """Return the error of a call as gRPC raises it."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=text, debug_error_string=text)


class EtcdNetwork:
    """The connections between the processes of servers and the members of the cluster.

    :param etcd: state that the members share.
    :param members: URLs of the members.
    :ivar latency: delays of messages in seconds.
    :ivar loss: probability that the response of a write is lost after its execution.
    :ivar down: URLs of members that do not run.
    :ivar isolated: processes whose messages are not delivered.
    :ivar lag: additional delays of the watches of processes, in seconds.
    :ivar crash_in: number of writes after which the process that sends one crashes.
    """

    def __init__(self, seed: object, loop: SimulatedLoop, etcd: Etcd, members: Sequence[str]) -> None:
        self.loop, self.etcd, self.members = loop, etcd, tuple(members)
        self.latency = Latency(f"{seed}/etcd", 0.005, 0.3)
        self.chance = random.Random(f"{seed}/etcd/faults")
        self.loss = 0.0
        self.down: set[str] = set()
        self.isolated: set[int] = set()
        self.lag: dict[int, float] = {}
        self.crash_in: int | None = None
        self.watches: dict[Watch, None] = {}
        etcd.observers.append(self._publish)

    def endpoint(self, url: str, _files: object, _socket: object) -> Endpoint:
        """Return the replacement of the client's endpoint."""
        return Endpoint(self, url)

    @property
    def available(self) -> bool:
        """Return whether a majority of the members runs."""
        return 2 * len(self.down) < len(self.members)

    def _publish(self, events: Sequence[kv.Event]) -> None:
        for watch in self.watches:
            watch.publish(events)

    def stop_member(self, url: str) -> None:
        """Stop a member; its connections are closed."""
        self.down.add(url)
        self.close_watches(lambda watch: watch.url == url or not self.available)

    def close_watches(self, matches: Callable[[Watch], bool]) -> None:
        """Close the watches for which *matches* returns true."""
        for watch in [watch for watch in self.watches if matches(watch)]:
            watch.fail(_rpc_error(grpc.StatusCode.UNAVAILABLE, "Socket closed"))

    def forget(self, process: int) -> None:
        """Close the connections of a process that has ended."""
        self.isolated.discard(process)
        self.lag.pop(process, None)
        self.watches = {watch: None for watch in self.watches if watch.process != process}

    def isolate(self, process: int) -> None:
        """Deliver no more messages from and to a process; gRPC closes its connections later."""
        self.isolated.add(process)
        self.loop.call_later(_KEEPALIVE_SECONDS, self._time_out, process, context=Context())

    def connect_again(self, process: int) -> None:
        """End the isolation of a process; what was sent during it arrives now."""
        self.isolated.discard(process)
        for watch in [watch for watch in self.watches if watch.process == process]:
            watch.deliver()

    def _time_out(self, process: int) -> None:
        if process in self.isolated:
            self.close_watches(lambda watch: watch.process == process)

    # --- calls ------------------------------------------------------------------------------------------------

    def send(self, url: str, name: str, request: Any) -> asyncio.Future[bytes]:
        """Send a request; it is executed even if the process that has sent it ends."""
        process, reply = PROCESS.get(), self.loop.create_future()
        if name == "Txn" and self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                self.crash_in, self.loop.crashed = None, True
                if self.chance.random() < 0.3:
                    return reply
        self.loop.call_later(self.latency(), self._execute, process, url, name, request, reply, context=Context())
        return reply

    def _execute(self, process: int, url: str, name: str, request: Any, reply: asyncio.Future[bytes]) -> None:
        if process in self.isolated:
            return
        if url in self.down:
            self._fail(reply, _rpc_error(grpc.StatusCode.UNAVAILABLE, "connections to all backends failing"))
        elif not self.available and name != "Status":
            error = _rpc_error(grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out")
            self.loop.call_later(_NO_LEADER_SECONDS, self._fail, reply, error, context=Context())
        else:
            self._respond(name, request, reply)

    def _respond(self, name: str, request: Any, reply: asyncio.Future[bytes]) -> None:
        try:
            response = self.etcd.call(name, request).SerializeToString()
        except EtcdError as error:
            self._fail(reply, _rpc_error(error.code, error.text))
            return
        if self.loss and name not in _READS and self.chance.random() < self.loss:
            self._fail(reply, _rpc_error(grpc.StatusCode.UNAVAILABLE, "Socket closed"))
            return
        if name == "LeaseGrant":
            self._expire_later(rpc.LeaseGrantResponse.FromString(response).ID)
        self.loop.call_later(self.latency(), _resolve, reply, response, context=Context())

    def _fail(self, reply: asyncio.Future[bytes], error: Exception) -> None:
        self.loop.call_later(self.latency(), _reject, reply, error, context=Context())

    def _expire_later(self, lease: int) -> None:
        """Delete the keys of a lease up to a second after its end."""
        due = self.etcd.lease_seconds(lease) + self.chance.random()
        self.loop.call_later(due, self._expire, lease, context=Context())

    def _expire(self, lease: int) -> None:
        if self.available:
            self.etcd.expire(lease)
        else:
            self._expire_later(lease)  # A new leader extends all leases.


class Endpoint:
    """One member as the store's client calls it."""

    def __init__(self, network: EtcdNetwork, url: str) -> None:
        self._network, self.url, self.target = network, url, url
        names = ("Range", "Txn", "Compact", "LeaseGrant", "Status")
        self.calls: dict[str, Callable[..., Any]] = {name: self._caller(name) for name in names}
        self.channel = self

    def _caller(self, name: str) -> Callable[..., Any]:
        async def call(request: Any, *, timeout: float, metadata: object = None) -> bytes:
            reply = self._network.send(self.url, name, request)
            try:
                async with asyncio.timeout(timeout):
                    return await reply
            except TimeoutError:
                raise _rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded") from None

        return call

    def watch(self, *, metadata: object) -> Watch:
        """Return a new stream of watch requests and responses."""
        return Watch(self._network, self.url, PROCESS.get())

    async def close(self, _grace: float | None) -> None:
        """Do nothing: the connections belong to calls and watches."""


class Watch:
    """A stream of watch responses, of one process from one member."""

    def __init__(self, network: EtcdNetwork, url: str, process: int) -> None:
        self.url, self.process = url, process
        self._network, self._loop = network, network.loop
        self._key, self._end = b"", b""
        self._sending: deque[tuple[float, rpc.WatchResponse]] = deque()
        """Responses in the network, with the times at which they arrive."""
        self._received: deque[rpc.WatchResponse | Exception] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._last_at = 0.0

    # --- the client's side ------------------------------------------------------------------------------------

    async def write(self, request: rpc.WatchRequest) -> None:
        """Send a request to create the watch, or to report its progress."""
        self._loop.call_later(self._network.latency(), self._arrive, request, context=Context())

    async def read(self) -> Any:
        """Return the next response.

        :raises grpc.aio.AioRpcError: the connection was closed.
        """
        while not self._received:
            self._waiter = self._loop.create_future()
            await self._waiter
        found = self._received.popleft()
        if isinstance(found, Exception):
            self._received.append(found)
            raise found
        return found.SerializeToString()

    def cancel(self) -> None:
        """End the stream."""
        self._network.watches.pop(self, None)

    # --- the member's side ------------------------------------------------------------------------------------

    def publish(self, events: Sequence[kv.Event]) -> None:
        """Send the events of a new revision."""
        network = self._network
        found = [event for event in events if self._key <= event.kv.key < self._end]
        if not found or not network.available:
            return
        if self._sending and self._sending[-1][1].events and network.chance.random() < _MERGED:
            self._sending[-1][1].events.extend(found)
            self._sending[-1][1].header.CopyFrom(network.etcd.header())
        else:
            self._send(rpc.WatchResponse(header=network.etcd.header(), events=found))

    def fail(self, error: Exception) -> None:
        """Close the stream; responses in the network are lost."""
        self._sending.clear()
        self._network.watches.pop(self, None)
        self._put(error)

    def deliver(self) -> None:
        """Deliver the responses that have arrived."""
        if self.process in self._network.isolated:
            return
        while self._sending and self._sending[0][0] <= self._loop.time():
            self._put(self._sending.popleft()[1])

    def _arrive(self, request: rpc.WatchRequest) -> None:
        network = self._network
        if self.process in self._loop.dead:
            return
        if self.process in network.isolated:
            self._loop.call_later(1.0, self._arrive, request, context=Context())
        elif self.url in network.down or not network.available:
            self.fail(_rpc_error(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader"))
        elif request.HasField("create_request"):
            self._create(request.create_request)
        elif self in network.watches:
            self._send(rpc.WatchResponse(header=network.etcd.header()))

    def _create(self, request: rpc.WatchCreateRequest) -> None:
        network, etcd = self._network, self._network.etcd
        self._key, self._end = request.key, request.range_end
        self._send(rpc.WatchResponse(header=etcd.header(), created=True))
        if request.start_revision < etcd.compacted:
            reason = "etcdserver: mvcc: required revision has been compacted"
            compacted = rpc.WatchResponse(
                header=etcd.header(), canceled=True, cancel_reason=reason, compact_revision=etcd.compacted
            )
            self._send(compacted)
            return
        network.watches[self] = None
        if events := etcd.events(self._key, self._end, request.start_revision):
            self._send(rpc.WatchResponse(header=etcd.header(), events=events))

    def _send(self, response: rpc.WatchResponse) -> None:
        delay = self._network.latency() + self._network.lag.get(self.process, 0.0)
        due = self._last_at = max(self._last_at, self._loop.time() + delay)
        self._sending.append((due, response))
        self._loop.call_at(due, self.deliver, context=Context())

    def _put(self, received: rpc.WatchResponse | Exception) -> None:
        self._received.append(received)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _resolve(reply: asyncio.Future[bytes], response: bytes) -> None:
    if not reply.done():
        reply.set_result(response)


def _reject(reply: asyncio.Future[bytes], error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)
        reply.exception()  # The caller may have crashed.
