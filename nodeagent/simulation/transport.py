"""Simulated network between the agent and the API server, below the API client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

import msgspec

from nodeagent.apiclient.transport import ConnectionLost, Request, Response, Stream
from nodeagent.base.simulation.latency import Latency
from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.simulation.apiserver import JSON, PODS, Rejection, SimulatedApiServer, Watch

BOOKMARK_SECONDS = 60.0


class Receiver:
    """Notifications about data that the agent has received, for invariants."""

    def listing(self, uids: set[str]) -> Collection[str]:
        """Return the pods that a list without them reports as deleted."""
        return ()

    def listed(self, gone: Collection[str]) -> None:
        """Record that the agent received a list, which reports pods as deleted."""

    def delivered(self, kind: str, obj: dict[str, Any]) -> None:
        """Record that the agent received a watch event of a pod."""


class Network:
    """State of the network and of the server's front end.

    :ivar down: connections fail, and open ones are closed.
    :ivar silent: requests and watch events are delayed until the network recovers.
    :ivar rejections: probability of an error response by its status code.
    :ivar lost: probability that the connection is lost after the request was executed.
    :ivar duplicated: probability that a watch event is delivered twice.
    :ivar certificate_error: text of the error that every request fails with, such as that of an expired certificate.
    """

    def __init__(self, loop: SimulatedLoop, server: SimulatedApiServer, latency: Latency) -> None:
        self.loop, self.server, self.latency = loop, server, latency
        self.down = False
        self.silent = False
        self.rejections: dict[int, float] = {}
        self.lost = 0.0
        self.duplicated = 0.0
        self.certificate_error = ""
        self.receiver = Receiver()
        self._recovered = asyncio.Event()

    def recover(self) -> None:
        """Remove all faults."""
        self.down = self.silent = False
        self.rejections, self.lost, self.duplicated, self.certificate_error = {}, 0.0, 0.0, ""
        self.latency.factor = 1.0
        self.speak()

    def speak(self) -> None:
        """Deliver what was delayed while the network was silent."""
        self.silent = False
        recovered, self._recovered = self._recovered, asyncio.Event()
        recovered.set()

    def disconnect(self) -> None:
        """Reject connections and close the open ones."""
        self.down = True
        self.server.end_watches()

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.latency.random.random() < probability

    async def delivered(self) -> None:
        """Wait while the network is silent."""
        while self.silent:
            await self._recovered.wait()

    def rejection(self, request: Request) -> Response | None:
        """Return the error response that the server's front end gives, if any."""
        for code, probability in self.rejections.items():
            if self.chance(probability):
                return _rejection(code, request)
        return None


class SimulatedTransport:
    """A :class:`~nodeagent.apiclient.transport.Transport` on the simulated network."""

    host = "simulated:6443"

    def __init__(self, network: Network) -> None:
        self._network = network

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        network = self._network
        self._check()
        reply = network.loop.create_future()
        network.loop.create_task(self._execute(request, reply), name="api request", context=Context())
        async with asyncio.timeout(deadline_seconds):
            result, gone = await reply
        if isinstance(result, ConnectionLost):
            raise result
        if _lists_pods(request):
            network.receiver.listed(gone)
        return result  # type: ignore[no-any-return]

    @asynccontextmanager
    async def stream(self, request: Request, deadline_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        network = self._network
        self._check()
        async with asyncio.timeout(deadline_seconds):
            await network.delivered()
            await asyncio.sleep(network.latency())
        if (rejected := network.rejection(request)) is not None:
            yield Stream(rejected, _nothing())
            return
        self._check()
        try:
            watch = network.server.open(request)
        except Rejection as rejection:
            yield Stream(rejection.response(), _nothing())
            return
        try:
            yield Stream(Response(200, JSON), self._events(watch))
        finally:
            if watch in network.server.watches:
                network.server.watches.remove(watch)

    async def close(self) -> None:
        pass

    def _check(self) -> None:
        if self._network.down:
            raise ConnectionLost("connect: ECONNREFUSED")
        if self._network.certificate_error:
            raise ConnectionLost(self._network.certificate_error)

    async def _execute(self, request: Request, reply: asyncio.Future[Any]) -> None:
        """Execute a request on the side of the server, which the client's timeout does not interrupt."""
        network = self._network
        await network.delivered()
        await asyncio.sleep(network.latency())
        result: Response | ConnectionLost
        gone: Collection[str] = ()
        if reply.done():  # The client has closed the connection.
            return
        if network.down:
            result = ConnectionLost("connection reset by peer")
        elif (rejected := network.rejection(request)) is not None:
            result = rejected
        else:
            result = network.server.handle(request)
            if _lists_pods(request) and result.status == 200:
                items = msgspec.json.decode(result.body)["items"]
                gone = network.receiver.listing({item["metadata"]["uid"] for item in items})
            if network.chance(network.lost):
                result = ConnectionLost("server disconnected")
        await asyncio.sleep(network.latency())
        await network.delivered()
        if not reply.done():
            reply.set_result((result, gone))

    async def _events(self, watch: Watch) -> AsyncIterator[bytes]:
        network = self._network
        ends_at = network.loop.time() + float(watch.target.query.get("timeoutSeconds", "300"))
        while True:
            left = ends_at - network.loop.time()
            try:
                async with asyncio.timeout(min(left, BOOKMARK_SECONDS)):
                    event = await watch.queue.get()
            except TimeoutError:
                if network.loop.time() >= ends_at:
                    return
                continue
            await network.delivered()
            await asyncio.sleep(network.latency())
            if network.down or event is None:
                raise ConnectionLost("connection reset by peer")
            kind, obj, line = event
            if watch.target.collection == PODS:
                network.receiver.delivered(kind, obj)
            yield line
            if network.chance(network.duplicated):
                yield line


def _lists_pods(request: Request) -> bool:
    return request.method == "GET" and request.target.startswith(f"{PODS}?")


def _rejection(code: int, request: Request) -> Response:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
    headers = {"retry-after": "1"} if code in (429, 503) else {}
    if (code == 410 and request.method != "GET") or (code == 409 and request.method == "GET"):
        code = 500
    return Rejection(code, reasons.get(code, "InternalError"), "injected failure", headers).response()


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
