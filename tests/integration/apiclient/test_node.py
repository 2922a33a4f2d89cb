"""Test for a node with node credentials: registration, status, lease and events with a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.apiclient import Client, connect
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.duration import Duration
from nodeagent.contracts.api import CORE_EVENTS, LEASES, NODES, PODS
from nodeagent.contracts.configuration import Taint
from nodeagent.contracts.events import EventType
from nodeagent.errors import ApiNotFound
from nodeagent.model.pod import Pod
from nodeagent.node import NodeManager
from nodeagent.testing import FakeImages
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin
from nodeagent_plugins import event_recorder, node_stats
from nodeagent_plugins.pod_source_api import ApiPodSource
from tests.integration.programs import ApiServer

PROTOBUF = "application/vnd.kubernetes.protobuf"


async def until(condition: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Wait until *condition*, which may be a coroutine function, returns something true."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("content_type", ["application/json", PROTOBUF])
async def test_node_works_with_node_credentials(
    server: ApiServer, client: Client, tmp_path: Path, content_type: str
) -> None:
    config = make_config(
        content_type=content_type,
        register_with_taints=(Taint(key="example.com/t", value="v", effect="NoSchedule"),),
        node_status_update_frequency=Duration.of(seconds=1),
        node_lease_duration_seconds=4,
    )
    clock = SystemClock()
    own = connect(Path(server.facts["nodeKubeconfig"]), config, clock)
    images = FakeImages()
    images.add("registry.test/a:1")
    await _remove(client)
    async with TaskOwner("test") as tasks:
        context = make_context(tmp_path, config=config, tasks=tasks, images=images)
        context.clock, context.api, context.new_api = clock, own, own.with_rate
        plugins = load_plugin(node_stats, name="node_stats", context=context)
        recorders = load_plugin(event_recorder, context=context)
        context.recorder = recorders.provide("nodeagent_provide_event_recorder", context=context)
        manager = NodeManager(context, plugins)
        sets: list[list[str]] = []
        tasks.start(manager.run_status(), "status")
        tasks.start(manager.run_registration(), "registration")
        tasks.start(manager.run_lease(), "lease")
        source = ApiPodSource(own, "node-1", clock)
        tasks.start(source.run(lambda pods: sets.append([pod.name for pod in pods])), "pods")

        await until(lambda: manager.ready and manager.owner_reference().uid)
        await until(lambda: _ready(client))
        first = await client.get(LEASES, "node-1", "kube-node-lease", into=dict)
        await until(lambda: _renewed(client, first))
        pod = {"metadata": {"name": "web"}, "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}}
        await client.create(PODS, pod, "default")
        await until(lambda: sets and sets[-1] == ["web"])
        web = await own.get(PODS, "web", "default", into=Pod)
        context.recorder.record(web.reference(), EventType.WARNING, "BackOff", "Back-off restarting")
        started = await until(lambda: _event(client, web, 1))
        for _ in range(2):
            context.recorder.record(web.reference(), EventType.WARNING, "BackOff", "Back-off restarting")
        event = await until(lambda: _event(client, web, 3))
        await client.delete(PODS, "web", "default", grace_seconds=0)
        await until(lambda: sets[-1] == [])
    node = await client.get(NODES, "node-1", into=dict)
    await context.recorder.flush(1)
    await own.close()

    assert {"key": "example.com/t", "value": "v", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["images"][0]["names"][-1] == "registry.test/a:1"
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "fake://1.0.0"
    assert {"cpu", "memory", "pods", "ephemeral-storage"} <= node["status"]["allocatable"].keys()
    assert event["metadata"]["name"] == started["metadata"]["name"]
    assert event["involvedObject"]["name"] == "web"
    assert event["source"] == {"component": "kubelet", "host": "node-1"}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("kubelet", "node-1")
    assert started["firstTimestamp"] == started["lastTimestamp"] == event["firstTimestamp"] <= event["lastTimestamp"]


async def _remove(client: Client) -> None:
    try:
        await client.delete(NODES, "node-1")
    except ApiNotFound:
        return


async def _ready(client: Client) -> bool:
    node = await client.get(NODES, "node-1", into=dict)
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def _renewed(client: Client, first: dict[str, Any]) -> bool:
    lease = await client.get(LEASES, "node-1", "kube-node-lease", into=dict)
    return bool(lease["spec"]["renewTime"] > first["spec"]["renewTime"])


async def _event(client: Client, pod: Pod, count: int) -> dict[str, Any] | None:
    """Return the event about *pod* once it has occurred *count* times."""
    listing = await client.list(CORE_EVENTS, "default", into=dict)
    found = [event for event in listing.items if event["involvedObject"].get("uid") == pod.uid]
    return next((event for event in found if event["count"] == count), None)
