"""Tests for the detection of pods that run already."""

from __future__ import annotations

import asyncio

from nodeagent.errors import RuntimeUnavailable
from nodeagent.testing import FakeRuntime, make_context, make_pod
from nodeagent_plugins.pod_admission.running import RETRY_SECONDS, is_running


async def test_pod_with_a_sandbox_runs(tmp_path):
    runtime, pod = FakeRuntime(), make_pod()
    context = make_context(tmp_path, runtime=runtime)

    assert not await is_running(context, pod)
    runtime.start("main", pod)
    assert await is_running(context, pod)


async def test_decision_waits_for_the_runtime(tmp_path, clock):
    runtime, pod = FakeRuntime(clock), make_pod()
    runtime.start("main", pod)
    runtime.fail("list_sandboxes", RuntimeUnavailable("away"), times=2)

    decision = asyncio.create_task(is_running(make_context(tmp_path, runtime=runtime, clock=clock), pod))
    await clock.advance(RETRY_SECONDS)
    assert not decision.done()
    await clock.advance(RETRY_SECONDS)

    assert await decision
