"""A status that reached the API server is timed from the first change that it holds."""

from __future__ import annotations

import asyncio

from nodeagent.contracts.api import PODS
from nodeagent.errors import ApiUnavailable
from nodeagent.pluginmanager import PluginManager
from nodeagent.status.manager import SYNC_DURATION, StatusManager
from nodeagent.testing import FakeApi, FakeRuntime, eventually, make_pod


def total():
    return next(value for suffix, _, value, _ in SYNC_DURATION.family().rows if suffix == "_sum")


async def test_the_time_of_a_change_is_kept_while_the_api_server_is_away(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    manager = StatusManager(
        api=lambda: api,
        clock=clock,
        plugins=PluginManager(),
        probes=lambda container_id, kind: None,
        host_ips=lambda: ["10.0.0.1"],
        runtime_name=lambda: "fake",
        is_static=lambda pod: False,
        mirror_of=lambda pod: None,
    )
    runtime.start("main", pod)
    count, seconds = SYNC_DURATION.count(), total()
    api.fail("patch", ApiUnavailable("away"), times=1)
    sending = asyncio.create_task(manager.run())

    manager.update(pod, runtime.pod(pod.uid))
    await clock.settle()
    assert SYNC_DURATION.count() == count
    await clock.advance(20)
    await eventually(lambda: SYNC_DURATION.count() == count + 1)

    assert 0 < total() - seconds <= 20
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
