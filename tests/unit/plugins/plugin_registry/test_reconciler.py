"""Tests for the plugin registry: registration, its failures, and changes of the sockets."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket as sockets
import tempfile
from pathlib import Path

import grpc
import pytest

from nodeagent import hookimpl
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import PluginRegistrationError
from nodeagent.testing.clock import eventually
from nodeagent.testing.context import make_context
from nodeagent.testing.contracts import BackgroundLoopContract, PluginHandlerContract
from nodeagent.testing.plugins import load_plugin
from nodeagent_plugins import plugin_registry
from nodeagent_plugins.plugin_registry.reconciler import TOTAL_PLUGINS, Reconciler
from tests.csi_driver import Registrar


class Handler:
    """Handler that records its calls."""

    plugin_type = "CSIPlugin"

    def __init__(self):
        self.calls = []
        self.failures = {}
        self.hanging = {}

    async def validate(self, plugin):
        if any(version.startswith("v999") for version in plugin.versions):
            raise PluginRegistrationError("unsupported")
        await self._call("validate", plugin)

    async def register(self, plugin):
        await self._call("register", plugin)

    async def deregister(self, plugin):
        await self._call("deregister", plugin)

    async def _call(self, step, plugin):
        self.calls.append((step, plugin.name))
        if plugin.name in self.hanging:
            await self.hanging[plugin.name].wait()
        if self.failures.get(step):
            raise self.failures[step].pop(0)

    def of(self, step):
        return [name for each, name in self.calls if each == step]


@pytest.fixture
def directory():
    """The watched directory; its path is short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="na-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
async def running(directory, handler, clock):
    reconciler = Reconciler(directory, {"CSIPlugin": handler}, clock)
    task = asyncio.create_task(reconciler.run())
    yield reconciler
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_plugin_is_registered_and_notified(running, directory, handler):
    registrar = Registrar("a.example", "/plugins/a/csi.sock", versions=["1.0.0", "0.3.0"])

    async with registrar.serve(directory / "a-reg.sock"):
        await eventually(lambda: registrar.notifications)

        assert registrar.notifications == [(True, "")]
        assert handler.calls == [("validate", "a.example"), ("register", "a.example")]
        path = str(directory / "a-reg.sock")
        await eventually(lambda: (path, "actual_state_of_world") in TOTAL_PLUGINS.sample())
        assert (path, "desired_state_of_world") in TOTAL_PLUGINS.sample()

    await eventually(lambda: handler.of("deregister"))
    await eventually(lambda: not TOTAL_PLUGINS.sample())


async def test_socket_from_before_the_start_and_in_a_subdirectory_is_found(directory, handler, clock):
    (directory / "vendor").mkdir()
    registrar = Registrar("a.example", "")
    async with registrar.serve(directory / "vendor" / "reg.sock"):
        task = asyncio.create_task(Reconciler(directory, {"CSIPlugin": handler}, clock).run())
        await eventually(lambda: registrar.notifications)
        (directory / "later").mkdir()
        late = Registrar("b.example", "")
        async with late.serve(directory / "later" / "reg.sock"):
            await eventually(lambda: late.notifications)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert handler.of("register") == ["a.example", "b.example"]


async def test_recreated_socket_is_deregistered_and_registered_again(running, directory, handler):
    socket = directory / "a.sock"
    async with Registrar("a.example", "").serve(socket):
        await eventually(lambda: handler.of("register"))
        socket.rename(directory / ".hidden")
        second = Registrar("a.example", "")
        async with second.serve(socket):
            await eventually(lambda: second.notifications)

    assert [step for step, _ in handler.calls[:5]] == ["validate", "register", "deregister", "validate", "register"]


async def test_socket_without_listener_is_retried_with_back_off(running, directory, handler, clock):
    path = directory / "a.sock"
    with contextlib.closing(sockets.socket(sockets.AF_UNIX)) as early:
        early.bind(str(path))  # The file exists before the server listens.
        await eventually(lambda: clock.sleepers)
        registrar = Registrar("a.example", "")
        early.listen()
        early.close()
        path.unlink()
        async with registrar.serve(path):
            await eventually(lambda: registrar.notifications)


async def test_failed_registration_is_reported_and_retried(running, directory, handler, clock):
    handler.failures["register"] = [PluginRegistrationError("no node"), PluginRegistrationError("still none")]
    registrar = Registrar("a.example", "")

    async with registrar.serve(directory / "a.sock"):
        for expected, pause in ((1, 0.5), (2, 1.0), (3, 0)):
            await eventually(lambda expected=expected: len(registrar.notifications) == expected)
            if pause:
                await eventually(lambda: clock.sleepers >= 2)
                await clock.advance(pause)

    message = "RegisterPlugin error -- plugin registration failed with err: no node"
    assert registrar.notifications[0] == (False, message)
    assert registrar.notifications[2] == (True, "")


async def test_pauses_start_again_with_another_socket(running, directory, handler, clock):
    handler.failures["register"] = [PluginRegistrationError("no") for _ in range(4)]
    socket = directory / "a.sock"

    async def fails(registrar, times, pause):
        """Wait for a failure, then for the pause before the next attempt."""
        await eventually(lambda: len(registrar.notifications) == times)
        await eventually(lambda: clock.sleepers >= 2)
        await clock.advance(pause * 0.9)
        assert len(registrar.notifications) == times

    first, second = Registrar("a.example", ""), Registrar("a.example", "")
    async with first.serve(socket):
        await fails(first, 1, 0.5)
        await clock.advance(0.05)
        await fails(first, 2, 1.0)
        socket.rename(directory / ".old")
        async with second.serve(socket):
            await fails(second, 1, 0.5)
            await clock.advance(0.05)
            await fails(second, 2, 1.0)
            await clock.advance(0.1)
            await eventually(lambda: second.notifications[-1][0])


async def test_pause_after_a_failure_does_not_end_with_another_socket(running, directory, handler, clock):
    handler.failures["register"] = [PluginRegistrationError("no")]
    first, second = Registrar("a.example", ""), Registrar("b.example", "")
    async with first.serve(directory / "a.sock"):
        await eventually(lambda: first.notifications)
        async with second.serve(directory / "b.sock"):
            await eventually(lambda: second.notifications)
            assert first.notifications == [(False, "RegisterPlugin error -- plugin registration failed with err: no")]

            await eventually(lambda: clock.sleepers >= 2)
            await clock.advance(0.5)
            await eventually(lambda: len(first.notifications) == 2)


async def test_unknown_type_is_rejected(running, directory, handler):
    registrar = Registrar("a.example", "", type_="Other")
    socket = directory / "a.sock"
    async with registrar.serve(socket):
        await eventually(lambda: registrar.notifications)

    error = f"RegisterPlugin error -- no handler registered for plugin type: Other at socket {socket}"
    assert registrar.notifications == [(False, error)] and not handler.calls


@pytest.mark.parametrize("endpoint", ["csi.sock", "/plugins/../../run/x.sock", "unix:///plugins/a.sock"])
async def test_endpoint_that_is_not_a_plain_absolute_path_is_rejected(running, directory, handler, endpoint):
    registrar = Registrar("a.example", endpoint)
    async with registrar.serve(directory / "a.sock"):
        await eventually(lambda: registrar.notifications)

    (registered, error), *_ = registrar.notifications
    assert not registered and "invalid endpoint" in error and not handler.calls


async def test_rejected_plugin_is_notified(running, directory, handler):
    handler.failures["validate"] = [PluginRegistrationError("too old")]
    registrar = Registrar("a.example", "")
    async with registrar.serve(directory / "a.sock"):
        await eventually(lambda: registrar.notifications)

    assert registrar.notifications == [(False, "RegisterPlugin error -- plugin validation failed with err: too old")]


async def test_hanging_plugin_does_not_delay_another(running, directory, handler):
    handler.hanging["slow.example"] = asyncio.Event()
    slow, quick = Registrar("slow.example", ""), Registrar("quick.example", "")
    async with slow.serve(directory / "a.sock"), quick.serve(directory / "b.sock"):
        await eventually(lambda: quick.notifications)
        assert not slow.notifications
        handler.hanging["slow.example"].set()
        await eventually(lambda: slow.notifications)


async def test_plugin_that_does_not_accept_the_result_is_deregistered(running, directory, handler, clock):
    registrar = Registrar("a.example", "")

    async def fail(_request, context):
        registrar.notified.set()
        await context.abort(grpc.StatusCode.INTERNAL, "no")

    registrar._notify = fail
    async with registrar.serve(directory / "a.sock"):
        await eventually(lambda: handler.of("deregister"))
    assert "actual_state_of_world" not in {state for _, state in TOTAL_PLUGINS.sample()}


async def test_endpoint_that_is_a_symbolic_link_is_rejected(running, directory, handler, clock):
    elsewhere = directory / ".elsewhere.sock"
    endpoint = directory / ".csi.sock"
    endpoint.symlink_to(elsewhere)
    registrar = Registrar("a.example", str(endpoint))

    async with registrar.serve(directory / "a.sock"):
        await eventually(lambda: registrar.notifications)

    ((registered, error),) = registrar.notifications
    assert not registered and "must not be a symbolic link" in error
    assert not handler.calls


async def test_files_links_and_hidden_names_are_ignored(running, directory, handler, caplog):
    (directory / "file.sock").write_text("")
    async with Registrar("hidden.example", "").serve(directory / ".hidden.sock"):
        (directory / "link.sock").symlink_to(directory / ".hidden.sock")
        registrar = Registrar("a.example", "")
        async with registrar.serve(directory / "a.sock"):
            await eventually(lambda: registrar.notifications)

    assert handler.of("register") == ["a.example"]
    messages = [r.path for r in caplog.records if r.message == "Ignoring symbolic link in plugin directory"]
    assert messages == [str(directory / "link.sock")]


async def test_oversized_description_is_rejected(running, directory, handler, clock):
    registrar = Registrar("a.example", "", versions=["1" * 5_000_000])
    async with registrar.serve(directory / "a.sock"):
        await eventually(lambda: clock.sleepers >= 2)  # The registration is in back-off.

    assert not handler.calls and not registrar.notifications


async def test_hook_provide_plugin_handlers(tmp_path):
    handler = Handler()

    class ThirdParty:
        @hookimpl
        def nodeagent_provide_plugin_handlers(self):
            return [handler]

    context = make_context(tmp_path)
    plugins = load_plugin(plugin_registry, name="plugin_registry", context=context)
    hook = "nodeagent_provide_background_loops"
    assert plugins.provide_all(hook, context=context, plugins=plugins)[0].value == ()
    plugins.register(ThirdParty(), name="third-party")

    (result,) = plugins.provide_all(hook, context=context, plugins=plugins)

    assert [loop.name for loop in result.value] == ["plugin registry"]


class TestReconciler(BackgroundLoopContract):
    @pytest.fixture
    async def loop(self, directory, handler, clock):
        return Reconciler(directory, {"CSIPlugin": handler}, clock)


class TestHandler(PluginHandlerContract):
    @pytest.fixture
    def handler(self):
        return Handler()

    @pytest.fixture
    def plugin(self):
        return RegisteredPlugin("CSIPlugin", "a.example", "/plugins/a.sock", ["1.0.0"], "/plugins_registry/a.sock")
