"""Tests for the channels of WebSocket sessions."""

import base64
import json
from types import SimpleNamespace

from aiohttp import WSMsgType

from nodeagent_plugins.embedded_runtime.channels import ERROR, RESIZE, STDIN, STDOUT, WebSocketSession


class Socket:
    def __init__(self, *messages):
        self._messages, self.sent = messages, []

    async def send_str(self, text):
        self.sent.append(text)

    async def send_bytes(self, data):
        self.sent.append(data)

    async def __aiter__(self):
        for kind, data in self._messages:
            yield SimpleNamespace(type=kind, data=data)


async def read(protocol, *messages):
    fed = []

    async def feed(channel, data):
        fed.append((channel, data))

    await WebSocketSession(Socket(*messages), protocol).read(feed)
    return fed


async def test_messages_are_those_of_the_subprotocol():
    encoded = base64.b64encode(b"in").decode()
    messages = [
        (WSMsgType.BINARY, b"\x00in"),
        (WSMsgType.TEXT, "\x04{}"),
        (WSMsgType.BINARY, b""),
        (WSMsgType.PING, b"\x00ping"),
    ]
    assert await read("v4.channel.k8s.io", *messages) == [(STDIN, b"in"), (RESIZE, b"{}")]
    texts = [(WSMsgType.TEXT, f"0{encoded}"), (WSMsgType.TEXT, "0x"), (WSMsgType.BINARY, f"4{encoded}".encode())]
    for protocol in ("v4.base64.channel.k8s.io", "base64.channel.k8s.io"):
        assert await read(protocol, *texts) == [(STDIN, b"in"), (RESIZE, b"in")]


async def test_status_is_sent_in_the_form_of_the_subprotocol():
    async def sent(protocol, report):
        socket = Socket()
        await report(WebSocketSession(socket, protocol))
        return socket.sent

    (message,) = await sent("v4.channel.k8s.io", lambda session: session.succeed())
    assert (message[0], json.loads(message[1:])) == (ERROR, {"metadata": {}, "status": "Success"})
    (message,) = await sent("v5.channel.k8s.io", lambda session: session.succeed(3))
    status = json.loads(message[1:])
    assert (status["reason"], status["details"]["causes"]) == (
        "NonZeroExitCode",
        [{"reason": "ExitCode", "message": "3"}],
    )
    (message,) = await sent("v4.base64.channel.k8s.io", lambda session: session.fail("no"))
    assert json.loads(base64.b64decode(message[1:]))["message"] == "no"
    for protocol in ("channel.k8s.io", ""):
        assert await sent(protocol, lambda session: session.succeed()) == []
        assert await sent(protocol, lambda session: session.fail("no")) == [b"\x03no"]
        assert await sent(protocol, lambda session: session.send(STDOUT, b"out")) == [b"\x01out"]


async def test_failure_is_not_reported_to_a_disconnected_client():
    class Closed(Socket):
        async def send_bytes(self, data):
            raise ConnectionResetError

    await WebSocketSession(Closed(), "v4.channel.k8s.io").fail("no")
