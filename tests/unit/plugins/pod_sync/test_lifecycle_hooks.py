"""Tests for lifecycle hooks."""

from __future__ import annotations

import ssl

import aiohttp
import msgspec
import pytest

from nodeagent.base.release import Release
from nodeagent.contracts.runtime import ExecResult
from nodeagent.errors import RuntimeFailure
from nodeagent.model.pod import ContainerPort, HttpGetAction, LifecycleHandler
from nodeagent.testing import FakeRuntime
from nodeagent_plugins.pod_sync.lifecycle_hooks import HookFailure, LifecycleHooks, _is_plain_response, _url


def hook(plain: dict) -> LifecycleHandler:
    return msgspec.convert(plain, LifecycleHandler)


async def test_command_runs_in_the_container_without_timeout(clock):
    runtime = FakeRuntime(clock)
    container = runtime.start("web")

    await LifecycleHooks(lambda: runtime, clock, sleep_enabled=False).run(
        hook({"exec": {"command": ["hello", "$HOME"]}}), container, "here"
    )

    assert runtime.called("exec_sync")[0].arguments == (container, ("hello", "$HOME"), 0)


@pytest.mark.parametrize("outcome", [ExecResult(2, b"out", b"err"), RuntimeFailure("gone")])
async def test_failed_command_is_a_failed_hook(clock, outcome):
    runtime = FakeRuntime(clock)
    container = runtime.start("web")
    if isinstance(outcome, Exception):
        runtime.fail("exec_sync", outcome)
    else:
        runtime.on_exec("web", outcome)

    with pytest.raises(HookFailure, match=r"^Exec lifecycle hook \(\[x -y\]\) for here failed - error: "):
        await LifecycleHooks(lambda: runtime, clock, sleep_enabled=False).run(
            hook({"exec": {"command": ["x", "-y"]}}), container, "here"
        )


async def test_request_is_limited_only_by_the_grace_period(clock, monkeypatch):
    requested = {}

    def session(**settings):
        requested.update(settings)
        raise aiohttp.ClientError("enough seen")

    monkeypatch.setattr(aiohttp, "ClientSession", session)
    hooks = LifecycleHooks(lambda: FakeRuntime(clock), clock, sleep_enabled=False)
    with pytest.raises(HookFailure, match=r"^HTTP lifecycle hook \(/drain\) for here failed - error: enough seen$"):
        await hooks.run(hook({"httpGet": {"port": 80, "path": "/drain"}}), "id", "here", pod_ip="127.0.0.1")

    assert requested["timeout"].total is None and requested["timeout"].sock_read is None
    assert requested["timeout"].sock_connect


async def test_user_agent_has_the_release(clock, monkeypatch):
    requested = {}

    async def get(_url, headers):
        requested.update(headers)

    monkeypatch.setattr("nodeagent_plugins.pod_sync.lifecycle_hooks._get", get)
    hooks = LifecycleHooks(lambda: FakeRuntime(clock), clock, sleep_enabled=False, release=Release(1, 36))

    await hooks.run(hook({"httpGet": {"port": 80}}), "id", "here", pod_ip="127.0.0.1")

    assert requested["User-Agent"] == "kube-lifecycle/1.36"


@pytest.mark.parametrize("plain", [{}, {"tcpSocket": {"port": 1}}, {"sleep": {"seconds": 1}}])
async def test_unsupported_action_fails(clock, plain):
    hooks = LifecycleHooks(lambda: FakeRuntime(clock), clock, sleep_enabled=False)

    with pytest.raises(HookFailure, match="no supported action"):
        await hooks.run(hook(plain), "id", "here")


@pytest.mark.parametrize(
    ("action", "url"),
    [
        (HttpGetAction(port=80, path="/a?b=c"), "http://10.0.0.1:80/a?b=c"),
        (HttpGetAction(port="web"), "http://10.0.0.1:8080/"),
        (HttpGetAction(port="443", scheme="HTTPS", host="other"), "https://other:443/"),
        (HttpGetAction(port=80, host="fd00::1", path="x"), "http://[fd00::1]:80/x"),
    ],
)
def test_url_of_a_request(action, url):
    assert _url(action, [ContainerPort(container_port=8080, name="web")], "10.0.0.1", "here") == url


def test_request_requires_an_address_and_a_known_port():
    with pytest.raises(HookFailure, match="no IP"):
        _url(HttpGetAction(port=80), (), "", "here")
    with pytest.raises(HookFailure, match="no port 'web'"):
        _url(HttpGetAction(port="web"), (), "10.0.0.1", "here")


def test_plain_http_response_to_tls_is_detected():
    cause = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    cause.reason = "WRONG_VERSION_NUMBER"
    key = aiohttp.client_reqrep.ConnectionKey("h", 443, True, False, None, None, None)
    error = aiohttp.ClientConnectorSSLError(key, cause)

    assert _is_plain_response(error)
    assert not _is_plain_response(aiohttp.ClientConnectorError(key, OSError("refused")))


class Server:
    """Responses by URL, in place of the HTTP client; other URLs respond with 200."""

    def __init__(self, monkeypatch, responses=None):
        self.responses, self.requests = responses or {}, []
        monkeypatch.setattr(aiohttp, "TCPConnector", lambda **_: None)
        monkeypatch.setattr(aiohttp, "ClientSession", lambda **_: self)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    def get(self, url, *, headers, allow_redirects):
        assert not allow_redirects
        self.requests.append((url, headers))
        response = self.responses.get(url, (200, ""))
        if isinstance(response, Exception):
            raise response
        return Response(*response)

    async def hook(self, clock, fell_back=lambda: None, **action):
        hooks = LifecycleHooks(lambda: FakeRuntime(clock), clock, sleep_enabled=False)
        await hooks.run(
            hook({"httpGet": {"port": 80, **action}}), "id", "here", pod_ip="10.0.0.1", on_fallback=fell_back
        )
        return [url for url, _ in self.requests]


class Response:
    def __init__(self, status, location):
        self.status, self.headers, self.content = status, {"Location": location} if location else {}, self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def read(self, _):
        return b""


@pytest.mark.parametrize(
    ("response", "following"),
    [
        ((302, "/next"), ["http://10.0.0.1:80/next"]),
        ((307, "http://10.0.0.1:81/"), ["http://10.0.0.1:81/"]),
        ((301, "http://other/"), []),
        ((302, ""), []),
        ((200, "/next"), []),
    ],
)
async def test_redirects_on_the_same_host_are_followed(clock, monkeypatch, response, following):
    server = Server(monkeypatch, {"http://10.0.0.1:80/": response})

    assert await server.hook(clock) == ["http://10.0.0.1:80/", *following]


async def test_endless_redirects_fail_the_hook(clock, monkeypatch):
    server = Server(monkeypatch, {"http://10.0.0.1:80/": (302, "/")})

    with pytest.raises(HookFailure, match="stopped after 10 redirects"):
        await server.hook(clock)


def tls_error(reason):
    cause = ssl.SSLError(1, reason)
    cause.reason = reason
    return aiohttp.ClientConnectorSSLError(
        aiohttp.client_reqrep.ConnectionKey("h", 443, True, False, *[None] * 3), cause
    )


async def test_server_without_tls_gets_a_plain_request_without_credentials(clock, monkeypatch):
    server, fell_back = Server(monkeypatch, {"https://10.0.0.1:80/": tls_error("WRONG_VERSION_NUMBER")}), []
    headers = [{"name": "Authorization", "value": "secret"}, {"name": "X", "value": "1"}]

    urls = await server.hook(clock, lambda: fell_back.append(1), scheme="HTTPS", httpHeaders=headers)

    assert urls == ["https://10.0.0.1:80/", "http://10.0.0.1:80/"]
    assert [set(sent) & {"Authorization", "X"} for _, sent in server.requests] == [{"Authorization", "X"}, {"X"}]
    assert fell_back == [1]


@pytest.mark.parametrize(("scheme", "reason"), [("HTTPS", "CERTIFICATE_VERIFY_FAILED"), ("HTTP", "HTTP_REQUEST")])
async def test_other_tls_errors_fail_the_hook(clock, monkeypatch, scheme, reason):
    server = Server(monkeypatch, {f"{scheme.lower()}://10.0.0.1:80/": tls_error(reason)})

    with pytest.raises(HookFailure):
        await server.hook(clock, scheme=scheme)

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "accept"),
    [([], "*/*"), ([{"name": "Accept", "value": "text/html"}], "text/html"), ([{"name": "Accept", "value": ""}], None)],
)
async def test_accept_header_can_be_replaced_and_removed(clock, monkeypatch, headers, accept):
    server = Server(monkeypatch)

    await server.hook(clock, httpHeaders=[*headers, {"name": "X-Empty", "value": ""}])

    ((_, sent),) = server.requests
    assert (sent.get("Accept"), sent["X-Empty"]) == (accept, "")
