"""Simulated node: the agent as a process that can crash, with a runtime, a disk and a network that outlive it."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import logging
import os
import random
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dbus_fast.aio
import grpc.aio
import msgspec

from nodeagent import hookimpl
from nodeagent.agent import Agent
from nodeagent.apiclient.connect import for_config
from nodeagent.base.duration import Duration
from nodeagent.base.release import NEWEST, OLDEST, Release
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.disk import SimulatedDisk
from nodeagent.base.simulation.latency import Latency
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop
from nodeagent.base.simulation.trace import Trace
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.stats import NodeUsage
from nodeagent.node import status_inputs
from nodeagent.node.root_directory import prepare_root
from nodeagent.plugin_settings import PluginConfig
from nodeagent.pluginmanager import GROUP, PluginManager
from nodeagent.simulation.amounts import linux_resources
from nodeagent.simulation.apiserver import SimulatedApiServer
from nodeagent.simulation.channel import SimulatedChannel
from nodeagent.simulation.disks import SimulatedDisks
from nodeagent.simulation.logind import SimulatedLogind
from nodeagent.simulation.pressure import (
    EVICTION_SETTINGS,
    MEMORY_BYTES,
    EvictionObserver,
    SimulatedMemory,
    SimulatedStats,
)
from nodeagent.simulation.runtime import SimulatedRuntime
from nodeagent.simulation.transport import Network, SimulatedTransport
from nodeagent.simulation.volume_driver import CLAIMS, PERSISTENT_VOLUME_CLAIMS, SimulatedDriver, claim_objects
from nodeagent.testing import FakeCgroups, FakeDeviceProvider, FakeStats

if TYPE_CHECKING:
    from nodeagent.config.load import Loaded

NODE, NAMESPACE = "node-1", "default"
DEVICE = "simulated.test/device"
CPUS = 2
MAX_PIDS = 1000
SHUTDOWN_SECONDS = 20
"""Longest grace period of pods in a shutdown."""
PLUGINS = frozenset(
    {
        "claims",
        "container_gc",
        "cri",
        "devices",
        "event_recorder",
        "eviction",
        "image_pull",
        "object_reader",
        "persistent_claims",
        "pod_admission",
        "pod_source_api",
        "pod_source_file",
        "pod_sync",
        "probes",
        "volumes",
    }
)
"""Bundled plugins that run in the simulation; the others use the kernel, sockets or other processes."""
_log = logging.getLogger(__name__)


class Host:
    """Plugin with the components that belong to the kernel of the node."""

    def __init__(self, driver: SimulatedDriver, stats: FakeStats, memory: str = "4Gi") -> None:
        self.cgroups, self.stats, self.driver, self._memory = FakeCgroups(), stats, driver, memory
        self.cgroups.resources = linux_resources
        self.devices: Sequence[FakeDeviceProvider] = ()
        self.press(pids=0)

    def press(self, *, pids: int) -> None:
        """Set the number of processes of the node."""
        self.stats.node_usage = NodeUsage(start_time=0, max_pids=MAX_PIDS, current_pids=pids)

    @hookimpl
    def nodeagent_provide_cgroups(self) -> FakeCgroups:
        return self.cgroups

    @hookimpl
    def nodeagent_provide_stats(self) -> FakeStats:
        return self.stats

    @hookimpl
    def nodeagent_provide_persistent_volume_kinds(self) -> Sequence[SimulatedDriver]:
        return [self.driver]

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return NodeReport(capacity={"cpu": str(CPUS), "memory": self._memory, "ephemeral-storage": "64Gi"})

    @hookimpl
    def nodeagent_provide_device_providers(self) -> Sequence[FakeDeviceProvider]:
        self.devices = [FakeDeviceProvider(DEVICE, ("d0", "d1", "d2"))]
        return self.devices


class Unruly:
    """Third-party plugin whose hooks raise errors or hang while a fault lasts."""

    def __init__(self) -> None:
        self.raises = self.hangs = False

    @hookimpl
    async def nodeagent_admit_pod(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_permit_pod(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_pod_status_changed(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_pod_terminated(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_mutate_container(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_container_started(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_container_stopped(self) -> None:
        await self._misbehave()

    @hookimpl
    async def nodeagent_report_node(self) -> None:
        await self._misbehave()

    async def _misbehave(self) -> None:
        if self.raises:
            raise ValueError("injected failure")
        while self.hangs:
            await asyncio.sleep(3600)


class Node:
    """The simulated node.

    :param directory: the disk; retained while the agent crashes.
    :param plugins: plugins under test by name, loaded in addition to the bundled ones.
    :param shuts_down: whether the node has logind, and time for the pods before it shuts down.
    :param has_pressure: whether memory and disks of the node are simulated, which can run low.
    """

    def __init__(
        self,
        seed: object,
        loop: SimulatedLoop,
        directory: Path,
        plugins: Mapping[str, object],
        *,
        shuts_down: bool = False,
        has_pressure: bool = False,
    ) -> None:
        self.loop, self.clock = loop, SimulatedClock(loop)
        self.trace = Trace(loop.time)
        self.runtime = SimulatedRuntime(seed, loop, self.clock, self.trace)
        self.server = SimulatedApiServer(seed, self.clock, self.trace)
        self.network = Network(loop, self.server, Latency(f"{seed}/api", 0.02, 2.0))
        self.runtime_latency = Latency(f"{seed}/cri", 0.01, 5.0)
        self.driver = SimulatedDriver(seed, directory / "root", self._is_running)
        self.memory = SimulatedMemory(seed, self.runtime)
        self.shuts_down, self.has_pressure, self.eviction_observer = shuts_down, has_pressure, EvictionObserver()
        self.disks = SimulatedDisks(seed, self.runtime, self.clock, directory / "root")
        self.usage = SimulatedStats(self.memory, self.disks, self.runtime, self.clock)
        if has_pressure:
            self.host = Host(self.driver, self.usage, str(MEMORY_BYTES))
        else:
            self.host = Host(self.driver, FakeStats())
        self.unruly = Unruly()
        self.disk = SimulatedDisk(seed, directory / "root")
        self.logind = SimulatedLogind(loop, self.trace)
        self.directory = directory
        self.manifests = directory / "manifests"
        self.agent: Agent | None = None
        self.process = 0
        """Number of the agent's process; each start increments it."""
        self.starts = 0
        self.started_at = 0.0
        self.failure: BaseException | None = None
        """Exception with which the agent ended on its own."""
        self._plugins = dict(plugins)
        self._bundled = PLUGINS | ({"shutdown"} if shuts_down else set()) | ({"image_gc"} if has_pressure else set())
        self.manifests.mkdir(parents=True, exist_ok=True)
        (directory / "logs").mkdir(exist_ok=True)
        release = random.Random(f"{seed}/release").choice((OLDEST, NEWEST))
        self.is_latest = release is NEWEST
        """``True`` if the agent has the latest release, in which pods can be resized and have restart rules."""
        self._loaded = _configuration(
            directory, release, SHUTDOWN_SECONDS if shuts_down else 0, EVICTION_SETTINGS if has_pressure else {}
        )
        for claim in CLAIMS:
            for collection, obj in claim_objects(claim, NAMESPACE).items():
                self.server.create(collection, obj, NAMESPACE if collection == PERSISTENT_VOLUME_CLAIMS else "")

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        return [
            (grpc.aio, "insecure_channel", self._channel),
            (dbus_fast.aio, "MessageBus", self.logind.bus),
            (os, "cpu_count", lambda: CPUS),
            (status_inputs, "swap_capacity_bytes", lambda: 0),
            # Each start of the agent would read the metadata of all installed distributions.
            (importlib.metadata, "entry_points", functools.cache(importlib.metadata.entry_points)),
            *((*self.memory.files().replacements(), *self.disks.replacements()) if self.has_pressure else ()),
        ]

    def _is_running(self, pod_uid: str) -> bool:
        return any(container.sandbox.uid == pod_uid for container in self.runtime.running())

    def forget(self) -> None:
        """Drop the calls that the fakes have recorded."""
        stats, cgroups, driver, devices = self.host.stats, self.host.cgroups, self.driver, self.host.devices
        for record in (stats.calls, cgroups.removed, cgroups.killed, cgroups.limited, driver.calls, driver.requests):
            record.clear()
        self.memory.forget()
        self.disks.forget()
        for provider in devices:
            provider.allocated.clear()
            provider.starting.clear()

    def start(self) -> None:
        """Start the agent as a new process."""
        self.starts += 1
        self.process = process = self.starts
        self.started_at = self.loop.time()
        self.trace.add("agent", f"start {process}")
        context = Context()
        context.run(PROCESS.set, process)
        self.loop.create_task(self._run(process), name="agent", context=context)

    def crash(self) -> None:
        """Drop the agent's process at the current callback; what it has written remains."""
        if not self.process:
            return
        process, self.process, self.agent = self.process, 0, None
        self.trace.add("agent", f"crash {process}")
        self.loop.drop(process)
        self.runtime.forget_clients()
        self.logind.forget_clients()
        self.server.watches.clear()
        self.loop.crash_at = None
        self.loop.crashed = False

    def _channel(self, *_arguments: Any, **_options: Any) -> SimulatedChannel:
        return SimulatedChannel(self.loop, self.runtime, self.runtime_latency)

    async def _run(self, process: int) -> None:
        try:
            plugins = PluginManager()
            plugins.load_entry_points(_installed() - self._bundled - set(self._plugins))
            plugins.register(self.host, name="host", origin="nodeagent.simulation")
            plugins.register(self.unruly, name="unruly", origin="simulated")
            if self.has_pressure:
                plugins.register(self.eviction_observer, name="eviction_observer", origin="nodeagent.simulation")
            for name, plugin in self._plugins.items():
                plugins.register(plugin, name=name, origin="simulated")
            self.agent = agent = Agent(
                self._loaded,
                plugins,
                plugin_config=PluginConfig({"pod_sync": {"log_root": str(self.directory / "logs")}}),
                clock=self.clock,
                prepare=partial(prepare_root, change=lambda root: None),
                connect=partial(for_config, SimulatedTransport(self.network)),
            )
            await agent.run()
            self.trace.add("agent", f"end {process}")
        except Exception as error:
            if process in self.loop.dead:  # Its coroutines are closed.
                return
            _log.exception("Agent failed")
            self.failure = error
            self.trace.add("agent", f"fail {process}: {error!r}")
        finally:
            if self.process == process:
                self.process, self.agent = 0, None


def _installed() -> set[str]:
    return {entry.name for entry in importlib.metadata.entry_points(group=GROUP)}


def _configuration(directory: Path, release: Release, shutdown_seconds: int, settings: Mapping[str, object]) -> Loaded:
    """Return the configuration of the node, which serves no ports."""
    from nodeagent.config.load import load_configuration

    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text("{}")
    flags = [
        f"--root-dir={directory / 'root'}",
        f"--cert-dir={directory / 'pki'}",
        f"--hostname-override={NODE}",
        f"--kubeconfig={kubeconfig}",
        "--node-ip=192.0.2.1",
        f"--compatibility-version={release}",
        "--container-runtime-endpoint=unix:///simulated",
    ]
    loaded = load_configuration(flags)
    changed = {
        "enable_server": False,
        "healthz_port": 0,
        "fail_swap_on": False,
        "content_type": "application/json",
        "static_pod_path": str(directory / "manifests"),
        "eviction_hard": {"pid.available": "10%"},
        "shutdown_grace_period": Duration.of(seconds=shutdown_seconds),
        **settings,
    }
    return replace(loaded, config=msgspec.structs.replace(loaded.config, **changed))
