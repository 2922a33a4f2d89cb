"""Tests for the DaemonSet controller: nodes, tolerations, updates and status."""

from __future__ import annotations

from typing import Any

from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import Cluster, Object, cluster, template, workload

__all__ = ["store"]
SETS, AGENT = "apps/daemonsets", "default/agent"


def daemon_set(**spec: Any) -> Object:
    return {"metadata": {"name": "agent"}, "spec": {**workload("agent"), **spec}}


async def add_node(found: Cluster, name: str, *, taints: list[Object] | None = None, **labels: str) -> None:
    metadata = {"name": name, "labels": labels}
    await found.create("nodes", {"metadata": metadata, "spec": {"taints": taints or []}})


async def bind(found: Cluster) -> None:
    """Bind every pod to the node of its affinity, and report it as running."""
    for pod in found.pods():
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        pod["spec"]["nodeName"] = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        found.store.put("core/pods", pod)
    await found.run_pods()


def nodes_of(found: Cluster) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in found.pods() if "deletionTimestamp" not in pod["metadata"])


async def test_every_matching_node_runs_one_pod(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await add_node(found, "a", disk="ssd")
        await add_node(found, "b")
        spec = template("agent", nodeSelector={"disk": "ssd"})
        await found.create("daemonsets", daemon_set(template=spec), "apps")
        await bind(found)
        before = nodes_of(found)
        await add_node(found, "c", disk="ssd")
        await bind(found)
        status = found.read(SETS, AGENT)["status"]
        assert nodes_of(found) == ["a", "c"]
    assert before == ["a"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (2, 2, 2)


async def test_pods_tolerate_node_problems_but_not_other_taints(store: MeteredStore) -> None:
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    async with cluster(store, FakeClock()) as found:
        await add_node(found, "a", taints=[not_ready])
        await add_node(found, "b", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        await found.create("daemonsets", daemon_set(), "apps")
        await bind(found)
        assert nodes_of(found) == ["a"]
        tolerations = found.pods()[0]["spec"]["tolerations"]
    assert {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"} in tolerations


async def test_update_replaces_one_pod_at_a_time(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        for name in "abc":
            await add_node(found, name)
        await found.create("daemonsets", daemon_set(), "apps")
        await bind(found)

        await found.change(SETS, AGENT, template=template("agent", "example.com/web:2"))
        deleting = [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" in pod["metadata"]]
        for _ in range(4):
            for pod in found.pods():
                if "deletionTimestamp" in pod["metadata"]:
                    await found.delete("core/pods", f"default/{pod['metadata']['name']}")
            await bind(found)
        images = {pod["spec"]["containers"][0]["image"] for pod in found.pods()}
        status = found.read(SETS, AGENT)["status"]
    assert len(deleting) == 1
    assert images == {"example.com/web:2"}
    assert status["updatedNumberScheduled"] == 3
