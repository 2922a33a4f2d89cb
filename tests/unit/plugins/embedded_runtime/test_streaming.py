"""Tests for the URLs of streams: single use, expiry, and the choice of the protocol."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from nodeagent_plugins.embedded_runtime import streaming
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.streaming import StreamingServer


class Server(StreamingServer):
    """A server that does not listen."""

    def __init__(self):
        super().__init__(self._execute_request)
        self.error, self.executed = None, []

    async def _start(self):
        self._runner, self._base = object(), "http://localhost"

    async def _execute_request(self, kind, request, session):
        self.executed.append((kind, request))
        if self.error is not None:
            raise self.error


@pytest.fixture
def server():
    return Server()


async def get(server, url, upgrade="SPDY/3.1", *, kind=None, **protocols):
    headers = {"Connection": "Upgrade", "Upgrade": upgrade}
    headers |= {name.replace("_", "-"): value for name, value in protocols.items()}
    _, _, found, token = url.rsplit("/", 3)
    request = make_mocked_request("POST", url, headers, match_info={"kind": kind or found, "token": token})
    try:
        return await server._serve(request)
    except web.HTTPException as error:
        return error


async def test_url_is_valid_once_and_for_its_kind(server):
    url = await server.offer("exec", "request")
    protocol = {"X_Stream_Protocol_Version": "v4.channel.k8s.io"}

    assert (await get(server, url, kind="attach", **protocol)).status == 404
    response = await get(server, url, **protocol)
    assert (response.status, response.headers["X-Stream-Protocol-Version"]) == (101, "v4.channel.k8s.io")
    assert server.executed == [("exec", "request")]
    assert (await get(server, url, **protocol)).text == "unknown or already used stream\n"


async def test_protocol_is_the_first_that_both_sides_support(server):
    channels, ports = "v4.channel.k8s.io", "portforward.k8s.io"
    for kind, offered, chosen in [
        ("exec", f"v9.channel.k8s.io, {channels}", channels),
        ("exec", "v3.channel.k8s.io", ""),
        ("exec", ports, ""),
        ("exec", "", ""),
        ("attach", channels, channels),
        ("portforward", ports, ports),
        ("portforward", channels, ""),
        ("portforward", "", ""),
    ]:
        url = await server.offer(kind, "request")
        headers = {"X_Stream_Protocol_Version": offered} if offered else {}
        response = await get(server, url, "spdy/3.1", **headers)
        assert response.status == (101 if chosen else 400), (kind, offered)
        if chosen:
            assert response.headers["X-Stream-Protocol-Version"] == chosen
    sockets = {"Sec_WebSocket_Protocol": "v3.channel.k8s.io"}
    text = "this runtime streams over WebSocket or SPDY/3.1; over this one as v5.channel.k8s.io or v4.channel.k8s.io"
    response = await get(server, await server.offer("exec", "r"), "websocket", **sockets)
    assert (response.status, response.text.startswith(text)) == (400, True)
    for kind, upgrade in [("portforward", "websocket"), ("exec", "h2c"), ("exec", "")]:
        url = await server.offer(kind, "request")
        assert (await get(server, url, upgrade)).status == 400, (kind, upgrade)
        version = {"Sec_WebSocket_Protocol": "v4.channel.k8s.io"}
        assert upgrade == "websocket" or (await get(server, url, upgrade, **version)).status == 400


async def test_number_of_unused_urls_is_limited(server, monkeypatch):
    monkeypatch.setattr(streaming, "MAX_OFFERS", 2)
    urls = {await server.offer("exec", number) for number in range(2)}
    assert len(urls) == 2
    with pytest.raises(CallError, match="too many streams wait to be opened"):
        await server.offer("exec", 3)


async def test_failed_streams_end_without_an_error_of_the_server(server, caplog):
    caplog.set_level("INFO")
    for error, messages in [(CallError("no shell"), []), (ConnectionResetError("gone"), ["Stream failed"])]:
        caplog.clear()
        server.error = error
        url = await server.offer("exec", "request")
        response = await get(server, url, X_Stream_Protocol_Version="v4.channel.k8s.io")
        assert response.status == 101
        assert caplog.messages == messages
