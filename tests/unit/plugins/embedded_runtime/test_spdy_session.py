"""Tests for streaming sessions over SPDY: the streams of commands, and flow control of received frames."""

import asyncio

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.spdy import Kind, Reader, Writer
from nodeagent_plugins.embedded_runtime import spdy_session
from nodeagent_plugins.embedded_runtime.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.spdy_session import MAX_WAITING, Port, SpdySession


class Client:
    """A client with its session; :attr:`fed` are the messages that the session passed on."""

    def __init__(self):
        self.frames, self._reader, self.received, self.held, self.fed = Writer(), Reader(), [], [], []
        self.disconnected = False
        self.session = SpdySession(self._write, self.held.append)
        self._next = 1

    async def _write(self, data):
        if self.disconnected:
            raise ConnectionResetError
        self.received += self._reader.feed(data)

    async def feed(self, channel, data):
        self.fed.append((channel, data))

    def open(self, kind, **headers):
        number, self._next = self._next, self._next + 2
        self.session.feed_data(self.frames.syn_stream(number, {"streamtype": kind, **headers}))
        return number

    def send(self, stream, data=b"", *, fin=False):
        self.session.feed_data(self.frames.data(stream, data, fin=fin))

    def reset(self, stream):
        self.session.feed_data(b"\x80\x03\x00\x03\x00\x00\x00\x08" + stream.to_bytes(4) + (5).to_bytes(4))

    def of(self, kind):
        return [(frame.stream, frame.data, frame.fin) for frame in self.received if frame.kind == kind]


def request(**fields):
    return cri.ExecRequest(container_id="c", **fields)


async def test_session_starts_when_the_streams_of_the_request_are_open(clock):
    for fields, kinds in [
        ({"stdin": True, "stdout": True, "stderr": True}, ["error", "stdin", "stdout", "stderr"]),
        ({"stdout": True, "stderr": True, "tty": True}, ["resize", "error", "stdout"]),
        ({}, ["error"]),
    ]:
        client = Client()
        opening = asyncio.create_task(client.session.open(request(**fields)))
        client.open("unknown")
        for kind in kinds:
            await clock.settle()
            assert not opening.done(), (fields, kind)
            client.open(kind)
        await clock.settle()
        assert opening.done(), fields
        assert len(client.of(Kind.SYN_REPLY)) == len(kinds)


async def test_streams_that_are_not_opened_end_the_session(clock, monkeypatch):
    monkeypatch.setattr(spdy_session, "OPEN_SECONDS", 0)
    with pytest.raises(CallError, match="timed out after 0 s waiting for the client's streams"):
        await Client().session.open(request())
    monkeypatch.undo()
    for end in (
        lambda client: client.session.feed_eof(),
        lambda client: client.session.feed_data(client.frames.goaway(0)),
    ):
        client = Client()
        end(client)
        with pytest.raises(ConnectionResetError, match="disconnected before its streams were open"):
            await client.session.open(request())


async def opened(*kinds, **fields):
    client = Client()
    numbers = {kind: client.open(kind) for kind in ("error", *kinds)}
    await client.session.open(request(**fields))
    return client, numbers


async def test_input_sizes_and_closed_streams_are_passed_on(clock):
    client, numbers = await opened("stdin", "stdout", "resize", stdin=True, stdout=True, tty=True)
    client.send(numbers["stdin"], b"one")
    client.send(numbers["resize"], b'{"Width":1}\n{"Width":2}')
    client.send(numbers["stdout"], b"wrong direction")
    client.send(99, b"unknown stream")
    client.session.feed_data(client.frames.ping(b"ping"))
    client.send(numbers["stdin"], b"two", fin=True)
    client.reset(numbers["stdin"])
    client.session.feed_eof()
    await client.session.read(client.feed)

    closed = (CLOSE, bytes([STDIN]))
    sizes = [(RESIZE, b'{"Width":1}'), (RESIZE, b'{"Width":2}')]
    assert client.fed == [(STDIN, b"one"), *sizes, (STDIN, b"two"), closed, closed]
    assert [frame.data for frame in client.received if frame.kind == Kind.PING] == [b"ping"]


async def test_data_sent_before_all_streams_are_open_is_passed_on_first(clock):
    client = Client()
    number = client.open("stdin")
    client.send(number, b"early")
    client.open("error")
    await client.session.open(request(stdin=True))
    client.send(number, b"late")
    client.session.feed_eof()
    await client.session.read(client.feed)

    assert client.fed == [(STDIN, b"early"), (STDIN, b"late")]


async def test_output_goes_to_the_stream_of_its_channel(clock):
    client, numbers = await opened("stdout", stdout=True)
    await client.session.send(STDOUT, b"out")
    await client.session.send(STDERR, b"not requested")
    await client.session.send(ERROR, b"status")
    await client.session.finish()

    ends = [(number, b"", True) for number in numbers.values()]
    assert client.of(Kind.DATA) == [(numbers["stdout"], b"out", False), (numbers["error"], b"status", False), *ends]
    assert client.received[-1].kind == Kind.GOAWAY
    client.disconnected = True
    await client.session.finish()


async def test_reading_pauses_while_too_many_frames_wait(clock):
    client, numbers = await opened("stdin", stdin=True)
    for _ in range(MAX_WAITING):
        client.send(numbers["stdin"], b"x")
    assert client.held == []
    client.send(numbers["stdin"], b"x")
    client.send(numbers["stdin"], b"x")
    assert client.held == [True]
    client.session.feed_eof()
    await client.session.read(client.feed)
    assert client.held == [True, False]
    assert len(client.fed) == MAX_WAITING + 2


async def test_invalid_data_ends_the_session(clock, caplog):
    client, _ = await opened()

    assert client.session.feed_data(b"\x80\x02" + bytes(14)) == (True, b"")
    await client.session.read(client.feed)

    assert caplog.messages == ["Closed stream, invalid SPDY data from client"]


async def test_port_that_cannot_be_connected_is_reported_on_its_error_stream(clock):
    def connect(port):
        raise ConnectionRefusedError(111, "Connection refused")

    client = Client()
    errors = client.open("error", requestid="1", port="80")
    data = client.open("data", requestid="1", port="80")
    client.open("data", requestid="2", port="http")
    forwarding = asyncio.create_task(client.session.forward(connect))
    await clock.settle()
    client.send(data, b"late")
    await clock.settle()
    client.session.feed_eof()
    await forwarding

    assert client.of(Kind.DATA) == [(errors, b"port 80: Connection refused", True), (data, b"", True)]


async def test_data_after_the_end_of_a_connection_is_dropped():
    port, reader = Port(80), Reader()
    (frame,) = reader.feed(Writer().data(1, b"x"))
    for _ in range(MAX_WAITING):
        await port.take(frame)
    waiting = asyncio.create_task(port.take(frame))
    await asyncio.sleep(0)
    assert not waiting.done()
    port.close()
    await waiting
    for _ in range(2 * MAX_WAITING):
        await port.take(frame)


class Connection:
    def __init__(self):
        self.actions = []

    def write(self, data):
        self.actions.append(data)

    async def drain(self):
        pass

    def close(self):
        self.actions.append("close")

    def write_eof(self):
        self.actions.append("end")


async def test_end_and_reset_of_a_stream_reach_the_connection():
    for end, expected in [(lambda w: w.data(1, b"b", fin=True), [b"a", b"b", "end"]), (None, [b"a", b"", "close"])]:
        port, connection, reader, writer = Port(80), Connection(), Reader(), Writer()
        last = end(writer) if end else b"\x80\x03\x00\x03\x00\x00\x00\x08" + (1).to_bytes(4) + (5).to_bytes(4)
        for frame in reader.feed(writer.data(1, b"a") + last):
            await port.take(frame)
        await port.pass_on(connection)
        assert connection.actions == expected
