"""Tests for the ports of the agent's server: files of its certificate, retries and changed routes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent.base.tls import TlsError
from nodeagent.contracts.server import Route
from nodeagent.server import server as module
from nodeagent.server.application import PortApplication
from nodeagent.server.server import RETRY_SECONDS, AgentServer
from nodeagent.server.serving_certificate import self_signed_pair
from nodeagent.testing import make_config, make_context


async def respond(_request):
    raise AssertionError


def route(path):
    return Route("GET", path, respond)


class Harness:
    """A server that is not running; ``routes`` are those of the plugins."""

    def __init__(self, tmp_path, clock, **config):
        self.context = make_context(tmp_path, clock=clock, config=make_config(**config))
        self.routes, self.provided = [route("/a")], 0
        self.server = AgentServer(self.context, {}, lambda: ([], None), self._provide, lambda: False, None)

    def _provide(self):
        self.provided += 1
        return list(self.routes)


@pytest.fixture
def make(tmp_path, clock):
    return lambda **config: Harness(tmp_path, clock, **config)


@pytest.mark.parametrize(
    ("config", "is_configured"),
    [
        ({"tls_cert_file": "/c", "tls_private_key_file": "/k", "server_tls_bootstrap": True}, True),
        ({"tls_cert_file": "/c"}, False),
        ({"tls_private_key_file": "/k"}, False),
        ({}, False),
    ],
)
async def test_certificate_is_the_configured_or_a_generated_one(make, config, is_configured):
    harness = make(**config)
    tls = harness.server._tls()
    generated = self_signed_pair(Path(harness.context.settings.cert_dir))
    expected = (Path("/c"), Path("/k")) if is_configured else (generated.certificate, generated.key)
    assert (tls._certificate, tls._key) == expected


class Failing:
    """A listener, or its TLS files, that fails some times."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def open(self):
        if self.errors:
            raise self.errors.pop(0)
        return 7

    async def context(self):
        self.open()


async def opened(harness, listener, tls):
    task = asyncio.create_task(harness.server._open(listener, tls))
    await harness.context.clock.advance(0)
    waits = 0
    while not task.done() and waits < 5:
        await harness.context.clock.advance(RETRY_SECONDS)
        waits += 1
    return task.result() if task.done() else task.cancel(), waits


async def test_port_in_use_is_retried_and_logged_once(make, caplog):
    assert await opened(make(), Failing(OSError("in use"), OSError("in use")), None) == (7, 2)
    assert caplog.messages == ["Failed to listen and serve"]


async def test_invalid_certificate_delays_the_port_unless_it_is_requested(make, monkeypatch, caplog):
    assert await opened(make(), Failing(), Failing(TlsError("no certificate"))) == (7, 1)
    assert caplog.messages == ["Failed to listen and serve"]
    monkeypatch.setattr(module, "serving_is_requested", lambda _config, _settings: True)
    assert await opened(make(), Failing(), Failing(TlsError("no certificate"))) == (7, 0)


async def test_routes_are_created_once_and_changed_together(make):
    harness = make()
    await harness.server.change_routes()
    assert harness.provided == 0, "no client has connected yet"

    first = harness.server._all_routes()
    assert harness.server._all_routes() is first and harness.provided == 1

    harness.routes.append(route("/b"))
    used = []

    async def prepare(routes):
        return lambda: used.append(routes)

    harness.server._applications.append(SimpleNamespace(prepare=prepare))
    await harness.server.change_routes()
    assert used == [harness.server._all_routes()]
    assert used[0][-1].path == "/b"


@pytest.mark.parametrize(
    ("config", "enabled"),
    [
        ({"enable_server": True, "read_only_port": 0}, True),
        ({"enable_server": False, "read_only_port": 10255}, True),
        ({"enable_server": False, "read_only_port": 0}, False),
    ],
)
def test_server_is_enabled_by_one_of_its_ports(make, config, enabled):
    assert make(**config).server.enabled is enabled


class Runner:
    """A runner of an application; ``connections`` are open."""

    def __init__(self):
        self.cleaned, self.stopped = 0, 0
        self.server = SimpleNamespace(connections=["one"], pre_shutdown=self._stop)

    def _stop(self):
        self.stopped += 1

    async def cleanup(self):
        self.cleaned += 1


@pytest.fixture
def application(monkeypatch):
    """Return an application with the runners that it creates."""
    runners = []

    async def new_runner(_self, _routes):
        runners.append(Runner())
        return runners[-1]

    monkeypatch.setattr(PortApplication, "_new_runner", new_runner)
    return PortApplication(list, None, debugging=False, recorder=None), runners


async def test_application_without_connections_is_closed_and_not_replaced(application):
    application, runners = application
    (await application.prepare([]))()
    await application.close()
    assert runners == []


async def test_replaced_application_is_kept_while_it_has_connections(application):
    application, runners = application
    await application.create()
    (await application.prepare([]))()
    runners[0].server.connections.clear()
    (await application.prepare([]))()
    await application.close()

    assert [runner.stopped for runner in runners] == [1, 1, 0]
    assert [runner.cleaned for runner in runners] == [0, 1, 1]


async def test_new_connection_has_the_protocol_of_the_application():
    application = PortApplication(lambda: [route("/a")], None, debugging=False, recorder=None)
    connecting = asyncio.create_task(application.connect(lambda: None))
    await asyncio.sleep(0)
    assert not connecting.done(), "the application does not exist yet"

    await application.create()

    assert isinstance(await connecting, asyncio.Protocol)
    await application.close()


@pytest.mark.parametrize(
    ("config", "ports"),
    [
        ({"enable_server": True, "read_only_port": 0}, ["secure"]),
        ({"enable_server": True, "read_only_port": 10255}, ["secure", "read-only"]),
        ({"enable_server": False, "read_only_port": 10255}, ["read-only"]),
    ],
)
async def test_ports_are_served_as_configured(make, monkeypatch, config, ports):
    served = []

    async def serve(_self, _requested, access, _tls):
        served.append("read-only" if access is None else "secure")

    monkeypatch.setattr(AgentServer, "_serve", serve)
    task = asyncio.create_task(make(**config).server.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert served == ports
