"""Tests for the pods that the agent lists over HTTP."""

from __future__ import annotations

import pytest

from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakeRuntime, make_context, make_pod
from nodeagent_plugins.routes_pods import running_pods, with_status


@pytest.mark.parametrize("status", [None, PodStatus(phase="Running")])
def test_pod_has_the_latest_generated_status(tmp_path, status):
    context, pod = make_context(tmp_path), make_pod("web")
    if status is not None:
        context.pods.statuses[pod.uid] = status

    assert with_status(context, pod).status == (status or pod.status)


async def test_pods_with_a_ready_sandbox_or_a_running_container_are_listed(clock):
    runtime = FakeRuntime(clock)
    both, idle, gone = (make_pod(name, containers=["main", "side"]) for name in ("both", "idle", "gone"))
    runtime.start("main", both)
    runtime.exit(runtime.start("side", both))
    runtime.exit(runtime.start("main", idle))
    runtime.exit(runtime.start("main", gone))
    for sandbox in runtime.pod(gone.uid).sandboxes:
        await runtime.stop_sandbox(sandbox.id)

    found = running_pods(await runtime.list_sandboxes(), await runtime.list_containers())

    listed = {each["metadata"]["name"]: [c["name"] for c in each["spec"]["containers"]] for each in found}
    assert listed == {"both": ["main"], "idle": []}
    assert running_pods((), await runtime.list_containers()) == []
