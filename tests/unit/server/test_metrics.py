"""Tests for the metrics of pods, containers and volumes of the agent."""

from dataclasses import replace

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent.contracts.stats import ContainerUsage, FilesystemStats, PodUsage, VolumeUsage
from nodeagent.errors import NodeAgentError
from nodeagent.server.metrics import metrics_routes
from nodeagent.testing import FakeRuntime, make_context, make_pod


@pytest.fixture
def context(tmp_path, clock):
    return make_context(tmp_path, clock=clock)


async def samples(context, *prefixes):
    """Return the samples whose names start with one of *prefixes*, in the text format."""
    (route,) = metrics_routes(context)
    response = await route.handler(make_mocked_request("GET", "/metrics"))
    names = tuple(f"kubelet_{prefix}" for prefix in prefixes)
    return [line.removeprefix("kubelet_") for line in response.body.decode().splitlines() if line.startswith(names)]


async def test_pods_are_counted_by_source_and_containers_by_state(context, clock):
    runtime = FakeRuntime(clock)
    static = make_pod("static", annotations={"kubernetes.io/config.source": "file"})
    debugged = make_pod("web", ephemeral_containers=[{"name": "debug", "image": "d"}])
    stopped, unseen = make_pod("stopped"), make_pod("unseen", annotations={"kubernetes.io/config.source": "api"})
    for pod in (static, debugged, stopped):
        runtime.exit(runtime.start("first", pod), 1)
        runtime.start("main", pod)
    runtime.kill_sandbox(runtime.pod(stopped.uid).sandboxes[0].id)
    for pod in (static, debugged, stopped):
        context.pods.add(pod, None, runtime.pod(pod.uid))
    context.pods.add(unseen)

    assert await samples(context, "desired_pods", "running_pods", "managed_ephemeral") == [
        'desired_pods{static=""} 3',
        'desired_pods{static="true"} 1',
        "managed_ephemeral_containers 1",
        "running_pods 2",
    ]
    states = await samples(context, "running_containers")
    assert 'running_containers{container_state="running"} 2' in states
    assert 'running_containers{container_state="exited"} 4' in states
    assert 'running_containers{container_state="created"} 0' in states


async def test_volumes_with_a_claim_and_logs_are_measured(context):
    full = FilesystemStats(0, available_bytes=1, capacity_bytes=3, used_bytes=2)
    volumes = [
        VolumeUsage("a", full, ("ns", "data"), abnormal=False),
        VolumeUsage("b", full),
        VolumeUsage("c", replace(full, used_bytes=None), ("ns", "other")),
    ]
    second = VolumeUsage("a", replace(full, used_bytes=9), ("ns", "data"), abnormal=True)
    logs = ContainerUsage("main", 0, logs=FilesystemStats(0, used_bytes=5))
    plain = [ContainerUsage("x", 0), ContainerUsage("y", 0, logs=FilesystemStats(0))]
    pods = (
        PodUsage("u1", "ns", "one", 0, [logs, *plain], volumes=volumes),
        PodUsage("u2", "ns", "two", 0, volumes=[second]),
    )
    context.stats.set(*pods)

    labels = 'namespace="ns",persistentvolumeclaim='
    assert await samples(context, "volume_stats_used", "volume_stats_health", "volume_stats_inodes") == [
        f'volume_stats_health_status_abnormal{{{labels}"data"}} 0',
        f'volume_stats_used_bytes{{{labels}"data"}} 2',
    ]
    capacity = await samples(context, "volume_stats_capacity")
    assert sorted(line.split("=")[2] for line in capacity) == ['"data"} 3', '"other"} 3']
    (line,) = await samples(context, "container_log")
    assert line.startswith('container_log_filesystem_used_bytes{uid="u1",namespace="ns",pod="one",container="main"} 5')


async def test_metrics_are_exposed_without_usage_if_it_cannot_be_measured(context):
    context.stats.fail("pods", NodeAgentError("away"))

    assert await samples(context, "volume_stats", "container_log") == []
    assert await samples(context, "node_name") == ['node_name{node="node-1"} 1']
