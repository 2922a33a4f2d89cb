"""Plans of eviction are served on a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from nodeagent_plugins.eviction.server import PlanServer

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.eviction import EvictionPlan, PlanAnswer, PlanRequest
from nodeagent.testing.clock import eventually


@pytest.fixture
def plan() -> EvictionPlan:
    return EvictionPlan(node="node-1", conditions=[], thresholds=[])


async def ask(socket: Path, line: bytes) -> PlanAnswer:
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(line + b"\n")
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return msgspec.json.decode(answer, type=PlanAnswer)


async def test_plans_are_served_to_root_alone(tmp_path: Path, plan: EvictionPlan):
    asked: list[PlanRequest] = []

    async def make(request: PlanRequest) -> EvictionPlan:
        asked.append(request)
        if request.signal == "nonsense":
            raise ValueError("is no signal")
        return plan

    socket = tmp_path / "s"
    async with TaskOwner("test") as tasks:
        tasks.start(PlanServer(socket, make).run(), "plans")
        await eventually(lambda: socket.exists() and socket.stat().st_mode & 0o777 == 0o600)

        assert await ask(socket, b'{"signal": "pid.available"}') == PlanAnswer(plan=plan)
        assert await ask(socket, b'{"signal": "nonsense"}') == PlanAnswer(error="is no signal")
        assert (await ask(socket, b"{")).error
        assert asked == [PlanRequest(signal="pid.available"), PlanRequest(signal="nonsense")]
    assert not socket.exists()


async def test_a_path_too_long_for_a_socket_costs_only_the_plans(
    tmp_path: Path, plan: EvictionPlan, caplog: pytest.LogCaptureFixture
):
    async def make(request: PlanRequest) -> EvictionPlan:
        return plan

    async with TaskOwner("test") as tasks:
        task = tasks.start(PlanServer(tmp_path / ("x" * 120), make).run(), "plans")
        await eventually(lambda: "Plans of eviction are not served" in caplog.text)
        assert not task.done()
