"""Tests for streaming and command requests, without the connection to the runtime's streaming endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from nodeagent.base.release import NEWEST
from nodeagent.base.spdy_streams import UpgradeFailed
from nodeagent.config.features import build_gates
from nodeagent.contracts.runtime import ExecResult
from nodeagent.errors import NotFound, RuntimeFailure
from nodeagent.testing import FakeRuntime, make_context, make_pod
from nodeagent_plugins.routes_exec import handlers as module
from nodeagent_plugins.routes_exec.handlers import RETRY_AFTER_SECONDS, Handlers
from nodeagent_plugins.routes_exec.tunnel import error_response

WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket"}
SPDY = {"Connection": "keep-alive, upgrade", "Upgrade": "SPDY/3.1"}
TRANSLATED = {**WEBSOCKET, "Sec-WebSocket-Protocol": "v4.channel.k8s.io, v5.channel.k8s.io"}
TUNNELED = {**WEBSOCKET, "Sec-WebSocket-Protocol": "SPDY/3.1+portforward.k8s.io"}


class Bench:
    """Handlers of a node with a running pod; ``connected`` are the ways in which clients were connected."""

    def __init__(self, tmp_path, clock, monkeypatch, *, gate=True):
        self.runtime = FakeRuntime(clock)
        gates = build_gates({"ExtendWebSocketsToNodeAgent": gate}, NEWEST)
        self.context = make_context(tmp_path, clock=clock, runtime=self.runtime, gates=gates)
        self.pod = self.context.pods.add(make_pod("web", containers=["main", "idle"]))
        self.id = self.runtime.start("main", self.pod)
        self.handlers, self.connected = Handlers(self.context), []
        for name in ("join", "translate", "tunnel_ports"):
            monkeypatch.setattr(module, name, self._connecting(name))

    def _connecting(self, name):
        async def connect(request, url, *_):
            self.connected.append((name, url.rpartition(":1/")[2].partition("/")[0]))
            return web.Response()

        return connect

    def observe(self):
        """Record the state of the runtime as observed by the agent."""
        self.context.pods.add(self.pod, observed=self.runtime.pod(self.pod.uid))

    async def request(self, method, query="", headers=SPDY, **path):
        info = {"namespace": "default", "pod": "web", "container": "main", **path}
        request = make_mocked_request("POST", f"/?{query}", headers, match_info=info)
        return await getattr(self.handlers, method)(request)

    async def failure(self, *arguments, **fields):
        with pytest.raises(web.HTTPException) as raised:
            await self.request(*arguments, **fields)
        return raised.value.status, raised.value.text


@pytest.fixture
def bench(tmp_path, clock, monkeypatch):
    return Bench(tmp_path, clock, monkeypatch)


@pytest.mark.parametrize(
    ("method", "query", "headers", "connected"),
    [
        ("exec", "command=a&output=1", SPDY, ("join", "exec")),
        ("exec", "command=a&output=1", WEBSOCKET, ("join", "exec")),
        ("exec", "command=a&output=1", TRANSLATED, ("translate", "exec")),
        ("attach", "output=1", SPDY, ("join", "attach")),
        ("attach", "output=1", TRANSLATED, ("translate", "attach")),
        ("port_forward", "", SPDY, ("join", "portforward")),
        ("port_forward", "port=80", WEBSOCKET, ("join", "portforward")),
        ("port_forward", "", TUNNELED, ("tunnel_ports", "portforward")),
    ],
)
async def test_client_is_connected_in_its_protocol(bench, method, query, headers, connected):
    await bench.request(method, query, headers)

    assert bench.connected == [connected]


@pytest.mark.parametrize(("method", "query"), [("exec", "command=a&output=1"), ("port_forward", "port=80")])
async def test_websocket_reaches_the_runtime_without_the_gate(tmp_path, clock, monkeypatch, method, query):
    bench = Bench(tmp_path, clock, monkeypatch, gate=False)

    await bench.request(method, query, TRANSLATED if method == "exec" else TUNNELED)

    assert [name for name, _ in bench.connected] == ["join"]


@pytest.mark.parametrize(
    ("method", "query", "headers", "status"),
    [
        ("exec", "output=1", SPDY, 400),
        ("exec", "command=a", SPDY, 400),
        ("exec", "command=a&output=1", {}, 500),
        ("exec", "command=a&output=1", {"Connection": "upgrade"}, 500),
        ("exec", "command=a&output=1", {"Upgrade": "SPDY/3.1"}, 500),
        ("attach", "", SPDY, 400),
        ("attach", "output=1", {}, 500),
        ("port_forward", "", {}, 500),
        ("port_forward", "", WEBSOCKET, 400),
        ("run", "", {}, 400),
    ],
)
async def test_incomplete_request_is_rejected(bench, method, query, headers, status):
    assert (await bench.failure(method, query, headers))[0] == status
    assert bench.connected == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ({"pod": "other"}, "pod does not exist\n"),
        ({"uid": "uid-other"}, "pod does not exist\n"),
        ({"container": "other"}, 'container not found ("other")\n'),
        ({"container": "idle"}, 'container "idle" in pod "web" is not running\n'),
    ],
)
@pytest.mark.parametrize("observed", [True, False])
async def test_missing_container_is_named(bench, path, text, observed):
    if observed:
        bench.observe()

    assert await bench.failure("exec", "command=a&output=1", **path) == (404, text)


async def test_observed_container_and_sandbox_are_used_without_a_list(bench):
    bench.observe()
    bench.runtime.calls.clear()

    await bench.request("attach", "output=1")
    await bench.request("port_forward")

    assert [call.method for call in bench.runtime.calls] == ["attach_url", "port_forward_url"]


async def test_restarted_container_is_found_in_the_runtime(bench):
    bench.runtime.exit(bench.id)
    bench.observe()
    newer = bench.runtime.start("main", bench.pod)

    await bench.request("attach", "output=1")

    assert bench.runtime.called("attach_url")[0].arguments[0] == newer


async def test_stopped_pod_has_no_ports(bench):
    for sandbox in bench.runtime.pod(bench.pod.uid).sandboxes:
        await bench.runtime.stop_sandbox(sandbox.id)
    bench.observe()

    assert await bench.failure("port_forward") == (404, 'pod "web" is not running\n')


@pytest.mark.parametrize(("code", "status"), [(0, 200), (3, 500)])
async def test_output_of_a_command_is_returned_with_its_success(bench, code, status):
    bench.runtime.on_exec("main", ExecResult(code, b"out", b"err"))

    response: Any = await bench.request("run", "cmd=a+b", {})

    assert (response.status, response.body) == (status, b"outerr")
    assert bench.runtime.called("exec_sync")[0].arguments[1] == ("a", "b")


def exhausted() -> RuntimeFailure:
    error = RuntimeFailure("too many")
    error.reason = "ResourceExhausted"  # type: ignore[misc]
    return error


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (NotFound("gone"), 404, None),
        (exhausted(), 429, str(RETRY_AFTER_SECONDS)),
        (RuntimeFailure("broken"), 500, None),
        (TimeoutError("too slow"), 504, None),
    ],
)
async def test_failure_of_the_runtime_has_a_status(bench, error, status, retry):
    bench.runtime.fail("exec_sync", error)

    with pytest.raises(web.HTTPException) as raised:
        await bench.request("run", "cmd=a", {})

    assert (raised.value.status, raised.value.headers.get("Retry-After")) == (status, retry)
    assert raised.value.text == f"{error}\n"


async def test_failed_list_of_the_runtime_is_reported(bench):
    bench.runtime.fail("*", RuntimeFailure("broken"), times=None)

    assert await bench.failure("attach", "output=1") == (500, "broken\n")
    assert await bench.failure("port_forward") == (500, "broken\n")


async def test_rejected_tunnel_has_the_status_of_the_runtime(bench, monkeypatch):
    async def fail(*_):
        raise UpgradeFailed(404, "no sandbox")

    monkeypatch.setattr(module, "tunnel_ports", fail)

    assert await bench.failure("port_forward", "", TUNNELED) == (404, "no sandbox\n")


@pytest.mark.parametrize(
    ("status", "returned"), [(400, 400), (403, 403), (404, 404), (504, 504), (500, 502), (301, 502)]
)
def test_status_of_the_runtime_is_returned_if_it_concerns_the_client(status, returned):
    assert error_response(status, "text").status == returned
