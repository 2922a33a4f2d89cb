"""Tests for the simulated network between the agent and the API server."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from nodeagent.apiclient.transport import ConnectionLost, Request
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.latency import Latency
from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.base.simulation.trace import Trace
from nodeagent.simulation.apiserver import CONFIG_MAPS, PODS, SimulatedApiServer
from nodeagent.simulation.transport import Network, Receiver, SimulatedTransport

LIST = f"{PODS}?limit=500"
CREATE = "/api/v1/namespaces/default/pods"


class Recorder(Receiver):
    def __init__(self):
        self.lists, self.gone, self.events = [], [], []

    def listing(self, uids):
        self.lists.append(uids)
        return ["gone"]

    def listed(self, gone):
        self.gone.append(list(gone))

    def delivered(self, kind, obj):
        self.events.append((kind, obj["metadata"]["name"]))


class Client:
    """A transport on a simulated loop."""

    def __init__(self, loop):
        self.loop = loop
        self.server = SimulatedApiServer(1, SimulatedClock(loop), Trace(loop.time))
        self.network = Network(loop, self.server, Latency(1, 0.1, 0.1))
        self.receiver = self.network.receiver = Recorder()
        self.transport = SimulatedTransport(self.network)

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def request(self, method="GET", target=LIST, body=None, seconds=10):
        content = b"" if body is None else msgspec.json.encode(body)
        return self.run(self.transport.request(Request(method, target, {}, content), seconds))

    def create(self, name="a"):
        return self.server.create(PODS, {"metadata": {"name": name, "uid": name}}, "default")

    async def watch(self, received, target=PODS, **query):
        text = "&".join(f"{key}={value}" for key, value in query.items())
        async with self.transport.stream(Request("GET", f"{target}?watch=true&{text}"), 10, 60) as stream:
            received.append(stream.head.status)
            async for line in stream.pieces:
                received.append(msgspec.json.decode(line)["type"])


@pytest.fixture
def client():
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    yield Client(loop)
    asyncio.set_event_loop(None)
    loop.close()


def test_list_of_pods_is_reported_when_it_is_received(client):
    client.create()
    assert client.request().status == 200
    assert (client.receiver.lists, client.receiver.gone) == ([{"a"}], [["gone"]])

    client.request(target=CONFIG_MAPS)
    client.request("POST", CREATE, {"metadata": {"name": "b"}})
    client.network.rejections[500] = 1.0
    assert client.request().status == 500
    assert (client.receiver.lists, client.receiver.gone[1:]) == ([{"a"}], [[]])


@pytest.mark.parametrize("fault", ["down", "certificate_error"])
def test_connection_fails_until_the_network_recovers(client, fault):
    setattr(client.network, fault, "x509")
    with pytest.raises(ConnectionLost):
        client.request()
    with pytest.raises(ConnectionLost):
        client.run(client.watch([]))
    client.network.recover()
    assert client.request().status == 200


def test_request_is_executed_although_its_response_is_lost(client):
    client.network.lost = 1.0
    with pytest.raises(ConnectionLost, match="server disconnected"):
        client.request("POST", CREATE, {"metadata": {"name": "a"}})
    assert client.server.find(PODS, "default", "a") is not None
    client.network.recover()
    assert client.request("POST", CREATE, {"metadata": {"name": "a"}}).status == 409


def test_silent_network_delays_requests_beyond_their_deadline(client):
    client.network.silent = True
    with pytest.raises(TimeoutError):
        client.request("POST", CREATE, {"metadata": {"name": "a"}}, seconds=5)
    assert client.loop.time() == 5 and client.server.find(PODS, "default", "a") is None
    client.network.speak()
    client.run(asyncio.sleep(1))
    assert client.server.find(PODS, "default", "a") is None, "the client has closed the connection"
    assert client.request().status == 200


def test_connection_that_is_lost_on_the_way_is_reset(client):
    async def lose():
        task = asyncio.create_task(client.transport.request(Request("GET", LIST), 10))
        await asyncio.sleep(0)
        client.network.disconnect()
        await task

    with pytest.raises(ConnectionLost, match="reset by peer"):
        client.run(lose())


@pytest.mark.parametrize(
    ("code", "method", "status", "retry"),
    [
        (429, "GET", 429, "1"),
        (503, "GET", 503, "1"),
        (500, "GET", 500, None),
        (410, "GET", 410, None),
        (410, "POST", 500, None),
        (409, "GET", 500, None),
        (409, "POST", 409, None),
    ],
)
def test_front_end_rejects_requests_with_codes_of_their_method(client, code, method, status, retry):
    client.network.rejections[code] = 1.0
    response = client.request(method, LIST if method == "GET" else CREATE, {"metadata": {"name": "a"}})
    assert (response.status, response.headers.get("retry-after")) == (status, retry)
    client.network.rejections[code] = 0.0
    assert client.request().status == 200


def test_watch_delivers_events_until_its_end(client):
    async def events():
        received = []
        task = asyncio.create_task(client.watch(received, timeoutSeconds=100))
        await asyncio.sleep(1)
        client.create()
        await asyncio.sleep(98)
        assert not task.done() and len(client.server.watches) == 1
        await asyncio.sleep(2)
        assert task.done() and client.server.watches == []
        return received

    assert client.run(events()) == [200, "ADDED"]
    assert client.receiver.events == [("ADDED", "a")]


def test_only_events_of_pods_are_reported(client):
    async def events():
        received = []
        task = asyncio.create_task(client.watch(received, CONFIG_MAPS, timeoutSeconds=10))
        await asyncio.sleep(1)
        client.server.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
        await task
        return received

    assert client.run(events()) == [200, "ADDED"] and client.receiver.events == []


@pytest.mark.parametrize(("probability", "lines"), [(1.0, ["ADDED", "ADDED"]), (0.0, ["ADDED"])])
def test_events_are_duplicated(client, probability, lines):
    async def events():
        received = []
        client.network.duplicated = probability
        task = asyncio.create_task(client.watch(received, timeoutSeconds=10))
        await asyncio.sleep(1)
        client.create()
        await task
        return received[1:]

    assert client.run(events()) == lines


@pytest.mark.parametrize("with_event", [True, False])
def test_watch_is_lost_with_the_connection(client, with_event):
    async def events():
        received = []
        task = asyncio.create_task(client.watch(received))
        await asyncio.sleep(1)
        if with_event:
            client.create()
            client.network.down = True
        else:
            client.server.end_watches()
        await task

    with pytest.raises(ConnectionLost, match="reset by peer"):
        client.run(events())
    assert client.server.watches == [] and client.receiver.events == []


def test_rejected_watch_has_the_status_of_the_error(client):
    received = []
    client.network.rejections[503] = 1.0
    client.run(client.watch(received))
    client.network.recover()
    client.create()
    client.server.compact()
    client.run(client.watch(received, resourceVersion=1))
    assert received == [503, 410] and client.server.watches == []
