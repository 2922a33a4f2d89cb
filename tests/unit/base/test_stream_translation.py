"""Tests for the translation of the streams of a command from WebSocket messages to SPDY streams."""

import asyncio
import json

import pytest

from nodeagent.base.spdy import Kind, Reader, SpdyError
from nodeagent.base.spdy import Writer as FrameWriter
from nodeagent.base.spdy_streams import SpdyConnection, UpgradeFailed
from nodeagent.base.stream_translation import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, Streams, TranslatedSession

SUCCESS = {"metadata": {}, "status": "Success"}


class Client:
    """The client's side: messages to send, and those received."""

    def __init__(self, *messages):
        self._queue = asyncio.Queue()
        for message in messages:
            self._queue.put_nowait(message)
        self.received = []

    def put(self, message):
        self._queue.put_nowait(message)

    async def send(self, message):
        self.received.append(message)

    async def messages(self):
        while (message := await self._queue.get()) is not None:
            yield message

    def output(self, channel):
        return b"".join(message[1:] for message in self.received if message[0] == channel)

    @property
    def status(self):
        return json.loads(self.output(ERROR))


class Writer:
    def __init__(self):
        self.data, self.closed, self.broken = b"", False, False

    def write(self, data):
        if self.broken:
            raise ConnectionResetError("broken")
        self.data += data

    async def drain(self):
        pass

    def close(self):
        self.closed = True


class Endpoint:
    """The endpoint's side of the SPDY connection."""

    def __init__(self, protocol="v4.channel.k8s.io"):
        self.reader, self.writer, self.frames = asyncio.StreamReader(), Writer(), FrameWriter()
        self.connection = SpdyConnection(self.reader, self.writer, protocol)
        self._decoder, self.seen = Reader(), []
        self._decoded = 0

    async def connect(self):
        return self.connection

    def received(self):
        data = self.writer.data[self._decoded :]
        self._decoded = len(self.writer.data)
        self.seen += self._decoder.feed(data)
        return self.seen

    def streams(self):
        return {f.headers["streamtype"]: f.stream for f in self.received() if f.kind == Kind.SYN_STREAM}

    def data(self, kind):
        number = self.streams()[kind]
        return [(f.data, f.fin) for f in self.seen if f.kind == Kind.DATA and f.stream == number]

    def send(self, kind, data=b"", *, fin=False):
        self.reader.feed_data(self.frames.data(self.streams()[kind], data, fin=fin))


def begin(streams, client=None, endpoint=None):
    client, endpoint = client or Client(), endpoint or Endpoint()
    session = TranslatedSession(client, streams, "the runtime")
    return client, endpoint, session, asyncio.create_task(session.run(endpoint.connect))


ALL = Streams(stdin=True, stdout=True, stderr=True, tty=False)


async def test_streams_of_the_request_are_opened(clock):
    for streams, expected, first in [
        (ALL, ["error", "stdin", "stdout", "stderr"], STDOUT),
        (Streams(stdin=True, stdout=True, stderr=False, tty=True), ["error", "stdin", "stdout", "resize"], STDOUT),
        (Streams(stdin=False, stdout=False, stderr=True, tty=False), ["error", "stderr"], STDERR),
        (Streams(stdin=True, stdout=False, stderr=False, tty=False), ["error", "stdin"], ERROR),
    ]:
        client, endpoint, _, running = begin(streams)
        await clock.settle()
        assert list(endpoint.streams()) == expected
        assert client.received == [bytes([first])]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert endpoint.writer.closed


async def test_output_is_copied_until_all_streams_are_closed(clock):
    client, endpoint, session, running = begin(ALL)
    await clock.settle()
    endpoint.send("stdout", b"out")
    endpoint.send("stderr", b"err", fin=True)
    endpoint.send("stdout", b"put", fin=True)
    endpoint.send("stdout", b"after the end")
    endpoint.send("stdin", b"wrong direction")
    await clock.settle()
    assert not running.done()
    endpoint.send("error", fin=True)
    await running

    assert (client.output(STDOUT), client.output(STDERR)) == (b"output", b"err")
    assert client.status == SUCCESS
    assert not session.outcome.failed
    assert session.sent_bytes == len(b"outputerr") + len(session.outcome.status)


async def test_reset_stream_counts_as_closed(clock):
    client, endpoint, _, running = begin(Streams(stdin=False, stdout=True, stderr=False, tty=False))
    await clock.settle()
    endpoint.send("error", fin=True)
    number = endpoint.streams()["stdout"]
    endpoint.reader.feed_data(b"\x80\x03\x00\x03\x00\x00\x00\x08" + number.to_bytes(4) + (5).to_bytes(4))
    await running

    assert client.status == SUCCESS


async def test_input_and_sizes_are_copied_until_the_client_closes_its_input(clock):
    streams = Streams(stdin=True, stdout=True, stderr=False, tty=True)
    client, endpoint, _, running = begin(streams)
    size = b'{"Width":80,"Height":24}'
    for message in [
        b"",
        bytes([STDIN]) + b"one",
        bytes([STDOUT]) + b"not writable",
        bytes([9]) + b"unknown",
        bytes([RESIZE]) + size,
        bytes([CLOSE, STDIN, 0]),
        bytes([CLOSE, STDOUT]),
        bytes([CLOSE, STDIN]),
        bytes([STDIN]) + b"after the end",
    ]:
        client.put(message)
    await clock.settle()

    assert endpoint.data("stdin") == [(b"one", False), (b"", True)]
    assert endpoint.data("resize") == [(size, False)]
    assert endpoint.data("stdout") == []
    assert not running.done()
    client.put(None)
    await running


async def test_output_is_still_copied_after_the_endpoint_stopped_reading(clock):
    client, endpoint, _, running = begin(ALL)
    await clock.settle()
    endpoint.writer.broken = True
    client.put(bytes([STDIN]) + b"one")
    client.put(bytes([STDIN]) + b"two")
    await clock.settle()
    endpoint.send("stdout", b"out", fin=True)
    for kind in ("stderr", "error"):
        endpoint.send(kind, fin=True)
    await running

    assert client.output(STDOUT) == b"out"
    assert client.status == SUCCESS


async def test_status_of_the_command_is_returned_with_the_texts_of_upstream(clock):
    def failure(**fields):
        return json.dumps({"metadata": {}, "status": "Failure", **fields}).encode()

    exited = {"reason": "NonZeroExitCode", "message": "exit status 3", "details": {"causes": [{"message": "3"}]}}
    for text, failed, part in [
        (b"", False, {"status": "Success"}),
        (b'{"status":"Success","message":"x"}', False, {"status": "Success"}),
        (failure(**exited), False, {"message": "command terminated with non-zero exit code: exit status 3"}),
        (failure(message="no such file"), True, {"message": "Internal error occurred: no such file", "code": 500}),
        (failure(), True, {"message": "Internal error occurred: unknown error"}),
        (b"not JSON", True, {"message": "Internal error occurred: error stream protocol error: 'not JSON'"}),
    ]:
        client, endpoint, session, running = begin(Streams(stdin=False, stdout=False, stderr=False, tty=False))
        await clock.settle()
        endpoint.send("error", text[:5])
        endpoint.send("error", text[5:], fin=True)
        await running
        assert {**client.status, **part} == client.status, text
        assert session.outcome.failed is failed, text


async def test_endpoint_that_disconnects_early_is_an_internal_error(clock):
    closed = "Internal error occurred: the runtime closed the connection before the command had exited"
    for sent, message in [(b"", closed), (b'{"status":"Success"}', None)]:
        client, endpoint, session, running = begin(ALL)
        await clock.settle()
        if sent:
            endpoint.send("error", sent)
        endpoint.reader.feed_eof()
        await running
        assert client.status.get("message") == message, sent
        assert session.outcome.failed is (message is not None)
        assert endpoint.writer.closed


async def test_failed_connection_is_reported_to_the_client(clock):
    async def unreachable():
        raise UpgradeFailed(502, "no route")

    client = Client()
    session = TranslatedSession(client, ALL, "the runtime")
    await session.run(unreachable)
    assert client.status["message"] == "Internal error occurred: no route"

    client, endpoint, session, running = begin(ALL, endpoint=Endpoint("channel.k8s.io"))
    await running
    assert client.status["message"] == "Internal error occurred: the runtime does not support v4.channel.k8s.io"
    assert endpoint.writer.closed

    client, endpoint, _, running = begin(ALL)
    await clock.settle()
    endpoint.reader.feed_data(b"\x80\x02" + b"\x00" * 14)
    await running
    assert client.status["message"].startswith("Internal error occurred: the runtime sent invalid SPDY data: ")
    with pytest.raises(SpdyError):
        list(Reader().feed(b"\x80\x02" + b"\x00" * 14))
