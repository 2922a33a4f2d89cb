"""Random sequences of pods, faults, node updates and crashes: no volume is lost, unmounted in use or left behind."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.errors import TransientVolumeError, VolumeError
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, FakeClock
from nodeagent.testing.persistent_volumes import uncertain

from .host import Host, claim_pod

STEPS = 50
METHODS = ("mount_device", "mount", "unmount", "unmount_device")
ERRORS = (uncertain, lambda: TransientVolumeError("no driver"), lambda: VolumeError("rejected"))


class Scenario:
    """One random sequence, determined by its seed."""

    def __init__(self, host: Host, seed: int) -> None:
        self.host, self.random = host, random.Random(seed)
        self.pods = {f"p{n}": claim_pod(f"p{n}", f"data{n % 2}") for n in range(4)}
        self.syncs: dict[str, asyncio.Task[object]] = {}
        self.ended: dict[str, Pod] = {}

    async def step(self) -> None:
        action = self.random.choice(
            (self.sync, self.sync, self.sync, self.end, self.fault, self.fault, self.recover, self.pause, self.report)
            + ((self.crash,) if self.random.random() < 0.4 else ())
        )
        await action()
        self.check()

    async def sync(self) -> None:
        pod = self.random.choice(list(self.pods.values()))
        if pod.uid in self.ended:
            return
        if (known := self.syncs.get(pod.uid)) is None or known.done():
            self.syncs[pod.uid] = await self.host.begin(pod)

    async def end(self) -> None:
        name = self.random.choice(list(self.pods))
        pod = self.pods[name]
        self.ended[pod.uid] = pod
        await self.release(pod)

    async def release(self, pod: Pod) -> None:
        """Release as the pod's worker does: the sync is cancelled first, and a failed release is repeated."""
        if (task := self.syncs.pop(pod.uid, None)) is not None:
            task.cancel()
            await asyncio.wait({task})
        self.host.running.discard(pod.uid)
        releasing = asyncio.create_task(self.host.manager.release(pod.uid))
        await self.host.clock.advance(0)
        if not releasing.done():
            releasing.cancel()
            await asyncio.wait({releasing})
        elif releasing.exception() is None:
            del self.ended[pod.uid]

    async def fault(self) -> None:
        method = self.random.choice(METHODS) + self.random.choice(("", ".after"))
        if self.random.random() < 0.2:
            self.host.kind.hang(method)
        elif method.endswith(".after"):
            # A driver that has done the work cannot report that it did not start it.
            self.host.kind.fail(method, uncertain(), self.random.randint(1, 3))
        else:
            self.host.kind.fail(method, self.random.choice(ERRORS)(), self.random.randint(1, 3))

    async def recover(self) -> None:
        self.host.kind.recover()
        await self.host.clock.advance(0)

    async def pause(self) -> None:
        await self.host.clock.advance(self.random.choice((0, 0.5, 2, 10)))

    async def report(self) -> None:
        if self.host.kind.needs_attach and self.host.manager.volumes_in_use() is not None:
            self.host.report(attached=self.random.random() < 0.8)
        await self.host.clock.advance(0)

    async def crash(self) -> None:
        """Kill the agent at this point and start it again."""
        await self.host.kill()
        self.syncs.clear()
        self.host.kind.recover()
        self.host.sources_ready = self.random.random() < 0.5
        self.host.start()
        await self.host.clock.advance(0)
        self.check()
        self.host.sources_ready = True
        self.host.context.pods.all_sources_ready = True  # type: ignore[misc]

    def check(self) -> None:
        kind, reported = self.host.kind, self.host.manager.volumes_in_use()
        assert kind.violations == []
        if kind.needs_attach and reported is not None:
            assert set(kind.staged()) <= set(reported)

    async def finish(self) -> None:
        """End all pods without faults; nothing may remain."""
        self.host.kind.recover()
        for pod in self.pods.values():
            self.ended[pod.uid] = pod
        for _ in range(20):
            for pod in list(self.ended.values()):
                await self.release(pod)
            if self.host.kind.needs_attach and self.host.manager.volumes_in_use() is not None:
                self.host.report()
            await self.host.clock.advance(130)
            self.check()
            if not self.ended and not self.host.manager.states():
                break
        assert self.ended == {} and self.host.manager.states() == []
        assert self.host.kind.published() == [] and self.host.kind.staged() == []
        assert self.host.manager.volumes_in_use() == [] and self.host.manager.pods_with_volumes() == []


@pytest.mark.parametrize("attach", [False, True])
@pytest.mark.parametrize("seed", range(12))
async def test_random_sequence_leaves_nothing_behind(tmp_path: Path, clock: FakeClock, seed: int, attach: bool) -> None:
    api = FakeApi(clock) if attach else None
    host = Host(tmp_path, clock, api)
    if api is not None:
        api.put(NODES, host.node)
    host.kind.needs_attach = attach
    for name in ("data0", "data1"):
        host.claims.add(name)
    host.start()
    scenario = Scenario(host, seed)
    try:
        for _ in range(STEPS):
            await scenario.step()
        await scenario.finish()
    finally:
        host.kind.recover()
        await host.kill()
