"""Kills of the agent before and after each call of a driver and each write of the checkpoint."""

from __future__ import annotations

import pytest

from nodeagent.testing import FakeClaimDriver
from nodeagent_plugins.claims.allocated_claims import ResourceApi
from nodeagent_plugins.claims.checkpoint import Checkpoint
from nodeagent_plugins.claims.drivers import Drivers, RegisteredDriver
from nodeagent_plugins.claims.manager import Manager
from tests.unit.plugins.claims.conftest import BOOT, GPU, add_claim, claim_pod

NET = "net.example.com"
PODS = {"web": "shared", "worker": "shared", "batch": "own"}
SCRIPT = ("+web", "+worker", "-web", "+batch", "-worker", "+web", "-batch", "-web")
"""Starts (+) and ends (-) of pods."""


class Killed(BaseException):
    """The agent was killed with SIGKILL."""


class Kill:
    """Kills the agent at the step with number *at*; a killed agent does nothing more."""

    def __init__(self, at: int) -> None:
        self.steps, self.at, self.is_dead = 0, at, False

    def step(self) -> None:
        self.steps += 1
        if self.is_dead or self.steps == self.at:
            self.is_dead = True
            raise Killed


class Driver(FakeClaimDriver):
    """Driver that continues when the agent is killed."""

    def __init__(self, name: str, kill: Kill) -> None:
        super().__init__(name)
        self.kill, self.held = kill, set()

    async def prepare(self, claims):
        self.kill.step()
        result = await super().prepare(claims)
        self.held |= {claim.uid for claim in claims}
        self.kill.step()
        return result

    async def unprepare(self, claims):
        self.kill.step()
        result = await super().unprepare(claims)
        self.held -= {claim.uid for claim in claims}
        self.kill.step()
        return result


class KillableCheckpoint(Checkpoint):
    def __init__(self, directory, kill):
        super().__init__(directory, BOOT)
        self.kill = kill

    def write(self, text):
        self.kill.step()
        super().write(text)
        self.kill.step()


async def run(context, api, directory, kill: Kill) -> list[Driver]:
    """Start and end pods; after the kill, the restarted agent repeats the interrupted step."""
    drivers, registered = [Driver(GPU, kill), Driver(NET, kill)], Drivers()
    for driver in drivers:
        registered.add(RegisteredDriver(driver))

    def start() -> Manager:
        manager = Manager(context, ResourceApi(api), registered, KillableCheckpoint(directory, kill))
        manager.start()
        return manager

    manager, running = start(), set()
    steps = list(SCRIPT)
    while steps:
        pod = claim_pod(steps[0][1:], PODS[steps[0][1:]])
        try:
            if steps[0][0] == "+":
                await manager.prepare_pod(pod)
                running.add(pod.name)
            else:
                running.discard(pod.name)
                await manager.release_pod(pod)
        except Killed:
            kill.at, kill.is_dead = 0, False
            manager = start()
            continue
        del steps[0]
        needed = {f"uid-{PODS[name]}" for name in running}
        for driver in drivers:
            assert driver.held == needed
        for name in running:
            used = claim_pod(name, PODS[name])
            assert manager.cdi_devices(used, used.spec.containers[0])
    assert manager.cache.entries == {}
    return drivers


@pytest.fixture
def claims(api):
    devices = ((GPU, "gpu-0"), (NET, "gpu-0"))
    add_claim(api, "uid-web", "uid-worker", name="shared", uid="uid-shared", devices=devices)
    add_claim(api, "uid-batch", name="own", uid="uid-own", devices=devices)


async def test_nothing_is_lost_or_left_after_a_kill_at_any_step(context, api, tmp_path, claims):
    never = Kill(at=0)
    for driver in await run(context, api, tmp_path, never):
        assert driver.prepared == ["uid-shared", "uid-own", "uid-shared"]
        assert driver.unprepared == ["uid-shared", "uid-own", "uid-shared"]

    for number in range(1, never.steps + 1):
        directory = tmp_path / str(number)
        directory.mkdir()
        for driver in await run(context, api, directory, Kill(number)):
            # At most the interrupted call is repeated.
            assert len(driver.prepared) + len(driver.unprepared) <= 7, number
    assert never.steps > 50
