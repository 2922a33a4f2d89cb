"""A real agent in the process of the test, with a fake runtime, for tests of a plugin with all of its components.

The fixture is available in pytest once nodeagent is installed::

    async def test_pod_without_owner_is_rejected(nodeagent_agent):
        async with nodeagent_agent({"labels": my_plugin}, settings={"labels": {"requiredLabels": ["owner"]}}) as agent:
            await agent.run_pods(make_pod("web"))

            assert agent.status("web").reason == "RequiredLabels"

Pod workers, PLEG, admission, volumes, probes, device manager and the local queries are those of the agent. Runtime,
images, cgroups, statistics, events and time are fakes. No root privileges or network are needed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nodeagent.agent import Agent
    from nodeagent.config.load import Loaded
    from nodeagent.contracts.events import RecordedEvent
    from nodeagent.model.pod import Pod, PodStatus
    from nodeagent.pluginmanager import PluginManager
    from nodeagent.testing.clock import FakeClock
    from nodeagent.testing.fakes import FakePodSource
    from nodeagent.testing.recorder import FakeRecorder
    from nodeagent.testing.runtime import FakeRuntime

_STEP_SECONDS = 0.25
_USED = frozenset({"devices", "pod_admission", "pod_sync", "probes", "volumes"})
"""Bundled plugins that the agent runs with; the others need a node."""


@dataclass
class RunningAgent:
    """A running agent and its fakes."""

    agent: Agent
    plugins: PluginManager
    clock: FakeClock
    runtime: FakeRuntime
    recorder: FakeRecorder
    source: FakePodSource
    root_dir: Path
    """The root directory, for files that the plugin creates."""
    _pods: dict[str, Pod] = field(default_factory=dict)
    _failure: Callable[[], BaseException | None] = lambda: None

    def add_pods(self, *pods: Pod) -> None:
        """Add pods without waiting, for example because a plugin delays them."""
        self._pods |= {pod.full_name: pod for pod in pods}
        self._publish()

    async def run_pods(self, *pods: Pod, within_seconds: float = 60.0) -> None:
        """Add pods, and wait until each of them runs, or has failed or succeeded."""
        self.add_pods(*pods)
        names = [pod.full_name for pod in pods]
        await self.wait_until(
            lambda: all(self.status(name).phase in ("Running", "Failed", "Succeeded") for name in names),
            within_seconds=within_seconds,
        )

    async def remove_pods(self, *names: str, within_seconds: float = 120.0) -> None:
        """Remove pods, named ``NAME`` or ``NAMESPACE/NAME``, and wait until they have terminated."""
        removed = {self._full(name) for name in names}
        self._pods = {name: pod for name, pod in self._pods.items() if name not in removed}
        self._publish()
        await self.wait_until(
            lambda: not removed & {pod.full_name for pod in self.agent.context.pods.all()},
            within_seconds=within_seconds,
        )

    def status(self, name: str) -> PodStatus:
        """Return the latest status of the pod ``NAME`` or ``NAMESPACE/NAME``; an empty one before the first.

        :raises KeyError: the pod was not added.
        """
        from nodeagent.model.pod import PodStatus

        pod = self._pods[self._full(name)]
        return self.agent.context.pods.status(pod.uid) or PodStatus()

    def events(self, name: str = "") -> Sequence[RecordedEvent]:
        """Return the recorded events of the pod ``NAME`` or ``NAMESPACE/NAME``; of all objects without one."""
        if not name:
            return list(self.recorder.events)
        namespace, _, pod = self._full(name).partition("/")
        return [
            event
            for event in self.recorder.events
            if (event.regarding.namespace, event.regarding.name) == (namespace, pod)
        ]

    async def query(self, name: str, /, **arguments: Any) -> Any:
        """Return the response of a local query, such as ``why``, as plain data.

        :raises KeyError: the agent has no such query.
        """
        import msgspec

        query = self.agent.context.queries[name]
        response = await query.handler(msgspec.convert(arguments, query.request))
        return msgspec.to_builtins(response)

    async def wait_until(self, condition: Callable[[], object], *, within_seconds: float = 60.0) -> None:
        """Advance the clock until *condition* is true.

        :param within_seconds: maximum time to advance; no real time.
        :raises AssertionError: it is not true in time.
        """
        for step in itertools.count():
            await self.clock.advance(_STEP_SECONDS if step else 0)
            if (error := self._failure()) is not None:
                raise error
            if condition():
                return
            if step * _STEP_SECONDS > within_seconds:
                states = [await self._state(name) for name in self._pods]
                raise AssertionError(f"timed out after {within_seconds:g} s; pods: {'; '.join(states)}")

    async def _state(self, name: str) -> str:
        """Return phase and cause of the state of a pod."""
        namespace, _, pod = name.partition("/")
        phase = str(self.status(name).phase) or "Pending"
        found = await self.query("why", namespace=namespace, name=pod)
        return f"{name}: {phase}, {found['cause']}" if found["cause"] else f"{name}: {phase}"

    def _publish(self) -> None:
        self.source.set(*self._pods.values())

    def _full(self, name: str) -> str:
        return name if "/" in name else f"default/{name}"


class _Fakes:
    """Plugin with the fake components."""

    def __init__(self, clock: FakeClock) -> None:
        from nodeagent.testing.fakes import FakePodSource
        from nodeagent.testing.images import FakeImages
        from nodeagent.testing.recorder import FakeRecorder
        from nodeagent.testing.runtime import FakeRuntime

        self.clock, self.runtime, self.recorder = clock, FakeRuntime(clock), FakeRecorder()
        self.source, self.images = FakePodSource("testing"), FakeImages()

    def hooks(self) -> object:
        """Return the plugin object."""
        from nodeagent import hookimpl
        from nodeagent.testing.fakes import FakeCgroups, FakeObjects, FakePuller, FakeStats

        provided = {
            "event_recorder": self.recorder,
            "runtime": self.runtime,
            "image_service": self.images,
            "object_reader": FakeObjects(self.clock),
            "cgroups": FakeCgroups(),
            "image_puller": FakePuller(self.images),
            "stats": FakeStats(),
            "pod_sources": [self.source],
        }

        class Hooks:
            """Hooks that return the fakes."""

        for name, value in provided.items():
            setattr(Hooks, f"nodeagent_provide_{name}", hookimpl(_returns(value)))
        return Hooks()


def _returns(value: Any) -> Callable[[object], Any]:
    def provide(self: object) -> Any:
        return value

    return provide


@asynccontextmanager
async def running_agent(
    directory: Path,
    plugins: Mapping[str, object],
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    config: Mapping[str, Any] | None = None,
    node_name: str = "node-1",
) -> AsyncIterator[RunningAgent]:
    """Run an agent with *plugins*, and stop it on exit.

    :param directory: the agent's root directory, such as ``tmp_path``.
    :param plugins: modules or objects with hooks, by plugin name; a name of a bundled plugin replaces that.
    :param settings: settings by plugin name; validated against the schemas of the plugins.
    :param config: fields of the configuration, by their Python names.
    :raises PluginError: a plugin is rejected or fails at the start.
    :raises AssertionError: settings are invalid.
    """
    from nodeagent.agent import Agent
    from nodeagent.node.root_directory import prepare_root
    from nodeagent.plugin_settings import PluginConfig
    from nodeagent.pluginmanager import PluginManager, QuarantinePolicy
    from nodeagent.testing.clock import FakeClock

    clock, manager = FakeClock(), PluginManager()
    fakes = _Fakes(clock)
    manager.load_entry_points((_installed() - _USED) | (_installed() & set(plugins)))
    manager.register(fakes.hooks(), name="testing", origin="nodeagent.testing")
    for name, plugin in plugins.items():
        manager.register(plugin, name=name, origin="test")
    manager.contain(QuarantinePolicy(failures=0), plugins)
    await _check_settings(manager, settings or {})
    agent = Agent(
        _loaded(directory, node_name, config or {}),
        manager,
        plugin_config=PluginConfig({name: dict(values) for name, values in (settings or {}).items()}),
        clock=clock,
        prepare=partial(prepare_root, change=lambda root: None),  # A mount would outlive the test.
    )
    task = asyncio.create_task(agent.run())

    def failure() -> BaseException | None:
        return task.exception() if task.done() and not task.cancelled() else None

    running = RunningAgent(
        agent, manager, clock, fakes.runtime, fakes.recorder, fakes.source, directory, _failure=failure
    )
    try:
        await running.wait_until(lambda: agent.context.pods.all_sources_ready)
        yield running
    finally:
        agent.stop()
        while not task.done():
            await clock.advance(_STEP_SECONDS)
        task.result()


@pytest.fixture
def nodeagent_agent(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[RunningAgent]]:
    """The function :func:`running_agent` with a temporary directory."""
    return partial(running_agent, tmp_path / "nodeagent")


def _installed() -> set[str]:
    import importlib.metadata

    from nodeagent.pluginmanager import GROUP

    return {entry.name for entry in importlib.metadata.entry_points(group=GROUP)}


async def _check_settings(manager: PluginManager, settings: Mapping[str, Mapping[str, Any]]) -> None:
    from nodeagent.plugin_schemas import validate

    schemas = {each.plugin: each.value for each in manager.provide_all("nodeagent_settings_schema")}
    unknown = set(settings) - set(schemas)
    assert not unknown, f"plugins without a schema: {', '.join(sorted(unknown))}"
    mismatches = validate(schemas, {name: dict(values) for name, values in settings.items()})
    assert not mismatches, "; ".join(f"{each.plugin}{each.path}: {each.message}" for each in mismatches)


def _loaded(directory: Path, node_name: str, fields: Mapping[str, Any]) -> Loaded:
    """Return the configuration of a standalone node without ports."""
    import msgspec

    from nodeagent.config.load import load_configuration

    directory.mkdir(parents=True, exist_ok=True)
    flags = [f"--root-dir={directory}", f"--hostname-override={node_name}", "--container-runtime-endpoint=unix:///fake"]
    loaded = load_configuration(flags)
    changed = {"enable_server": False, "healthz_port": 0, "fail_swap_on": False, **fields}
    return replace(loaded, config=msgspec.structs.replace(loaded.config, **changed))
