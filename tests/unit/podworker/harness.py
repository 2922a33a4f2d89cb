"""Pod workers with a fake runtime, and a syncer that starts one container per pod."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from nodeagent.allocation.decision import ResizeRules
from nodeagent.allocation.manager import AllocationManager
from nodeagent.config.features import build_gates
from nodeagent.contracts.pods import SyncOutcome
from nodeagent.pleg.cache import PodCache
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.desired import DesiredPods, is_static
from nodeagent.podworker.worker import WorkerComponents
from nodeagent.podworker.workers import PodWorkers
from nodeagent.status.manager import StatusManager
from nodeagent.testing import FakeProber, FakeRecorder, FakeRuntime


class OneContainerSyncer:
    """Syncer that starts the first container of a pod and stops all containers on termination."""

    def __init__(self, runtime):
        self.runtime, self.steps, self.graces, self.error, self.hang = runtime, [], [], None, False
        self.stuck = False

    async def sync_pod(self, pod, status, observed):
        self.steps.append(("sync", pod.name))
        if self.hang:
            await asyncio.Event().wait()
        if self.error:
            return SyncOutcome(error=self.error)
        if observed.containers:
            return SyncOutcome()
        container = self.runtime.start("main", pod)
        sandboxes = await self.runtime.list_sandboxes(pod.uid)
        return SyncOutcome(touched=frozenset({container, *(sandbox.id for sandbox in sandboxes)}))

    async def sync_terminating(self, pod, observed, grace_seconds):
        self.steps.append(("terminating", pod.name))
        self.graces.append(grace_seconds)
        if self.stuck:
            await asyncio.Event().wait()
        for container in observed.containers:
            await self.runtime.stop_container(container.id, grace_seconds or 0)
        for sandbox in observed.sandboxes:
            await self.runtime.stop_sandbox(sandbox.id)
        return SyncOutcome(touched=frozenset(each.id for each in (*observed.containers, *observed.sandboxes)))

    async def sync_stopped(self, pod):
        self.steps.append(("stopped", pod.name))

    async def sync_terminated(self, pod, observed):
        self.steps.append(("terminated", pod.name))

    async def remove_pod(self, pod, observed):
        self.steps.append(("remove", pod.name))
        for sandbox in observed.sandboxes:
            await self.runtime.remove_sandbox(sandbox.id)

    async def remove_orphans(self, is_known):
        pass


class Harness:
    def __init__(self, clock, *plugins, resizing=False):
        self.clock, self.runtime, self.recorder = clock, FakeRuntime(clock), FakeRecorder()
        self.syncer = OneContainerSyncer(self.runtime)
        self.cache = PodCache(lambda: self.runtime, clock)
        self.plugins = PluginManager()
        for index, plugin in enumerate(plugins):
            self.plugins.register(plugin, name=f"plugin{index}")
        self.network_problem = ""
        self.allocations = AllocationManager(
            None,
            ResizeRules(enabled=resizing),
            recorder=lambda: self.recorder,
            may_swap=lambda pod, container: False,
            now=clock.wall,
        )
        self.prober = FakeProber()
        self.workers = PodWorkers(DesiredPods(["file"]), self.parts, lambda kind, pod: None)
        self.status = StatusManager(
            api=lambda: None,
            clock=clock,
            plugins=self.plugins,
            probes=self.prober.result,
            host_ips=lambda: ["192.0.2.1"],
            runtime_name=lambda: "fake",
            is_static=is_static,
            mirror_of=lambda pod: None,
            gates=build_gates({}),
            trigger_sync=self.workers.trigger_sync,
            allocations=self.allocations,
        )

    def parts(self):
        return WorkerComponents(
            syncer=lambda: self.syncer,
            observer=self.cache,
            status=self.status,
            plugins=self.plugins,
            recorder=self.recorder,
            clock=self.clock,
            resync_seconds=60,
            network_problem=lambda: self.network_problem,
            finished=self.workers.finished,
            ended=self.workers.ended,
            allocations=self.allocations,
        )

    async def publish(self, *pods):
        self.workers.publish("file", list(pods))
        await self.clock.advance(0)

    def names(self, step):
        return [name for kind, name in self.syncer.steps if kind == step]


@asynccontextmanager
async def living(harness):
    task = asyncio.create_task(harness.workers.run())
    try:
        await harness.clock.advance(0)
        yield harness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def deleted(pod, grace_seconds):
    """Return *pod* as the API returns it after a deletion request."""
    meta = msgspec.structs.replace(
        pod.metadata, deletion_timestamp=datetime(2024, 1, 1, tzinfo=UTC), deletion_grace_period_seconds=grace_seconds
    )
    return msgspec.structs.replace(pod, metadata=meta)
