"""Tests for the DaemonSet controller: nodes, tolerations, updates and status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.views import Condition, Metadata, NodeSpec, NodeView, PodSpec, PodStatus, PodView
from apiserver_stub.controllers.workloads.daemon_sets import (
    daemon_status,
    daemon_tolerations,
    max_surge,
    rolling_changes,
    should_run,
    with_node,
)
from apiserver_stub.controllers.workloads.revisions import HASH_LABEL
from nodeagent.base.identity import Identity
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


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEW, OLD = "new", "old"


def view(name: str, digest: str = NEW, since: str | None = "2026-01-01T11:00:00Z", **fields: Any) -> PodView:
    """Return a pod on a node; it is ready since *since*, or not if this is ``None``."""
    conditions = (Condition("Ready", "True", None, since),) if since else ()
    metadata = Metadata(
        name, labels={HASH_LABEL: digest}, created_at=fields.get("created"), deleted_at=fields.get("deleted")
    )
    return PodView(
        metadata, PodSpec(fields.get("node", "n")), PodStatus(fields.get("phase", "Running"), conditions=conditions)
    )


def node(name: str = "n", *taints: Object, **labels: str) -> NodeView:
    return NodeView(Metadata(name, labels=labels), NodeSpec(taints))


def owner(**spec: Any) -> Object:
    return {"metadata": {"name": "agent"}, "spec": spec}


def rolling(**limits: Any) -> Object:
    return owner(updateStrategy={"type": "RollingUpdate", "rollingUpdate": limits})


def test_update_replaces_unavailable_pods_and_as_many_others_as_allowed() -> None:
    down = {"since": None}
    for title, limit, pods, expected in (
        ("one of two", 1, {"a": [view("a1", OLD)], "b": [view("b1", OLD)]}, ["a1"]),
        ("both", 2, {"a": [view("a1", OLD)], "b": [view("b1", OLD)]}, ["a1", "b1"]),
        ("half", "50%", {"a": [view("a1", OLD)], "b": [view("b1", OLD)]}, ["a1"]),
        ("current pods stay", 2, {"a": [view("a1")], "b": [view("b1", OLD)]}, ["b1"]),
        ("a new pod is not ready", 1, {"a": [view("a1", **down)], "b": [view("b1", OLD)]}, []),
        ("a pod is missing", 1, {"b": [view("b1", OLD)]}, []),
        ("a pod is being deleted", 1, {"a": [view("a1", OLD, deleted="x")], "b": [view("b1", OLD)]}, []),
        ("broken old pods do not wait", 1, {"a": [view("a1", OLD, **down)], "b": [view("b1", OLD)]}, ["a1"]),
        ("all broken ones", 1, {"a": [view("a1", OLD, **down)], "b": [view("b1", OLD, **down)]}, ["a1", "b1"]),
    ):
        nodes = {name: node(name) for name in "ab"}
        plan = rolling_changes(rolling(maxUnavailable=limit), nodes, pods, NEW, NOW, Identity())
        assert [pod.metadata.name for pod in plan.delete] == expected, title
        assert plan.create == [], title
    tainted = {"a": node("a", {"key": "x", "effect": "NoSchedule"}), "b": node("b")}
    plan = rolling_changes(
        rolling(maxUnavailable=1), tainted, {"a": [view("a1", OLD)], "b": [view("b1", OLD)]}, NEW, NOW, Identity()
    )
    assert [pod.metadata.name for pod in plan.delete] == ["b1"]
    for other in (owner(updateStrategy={"type": "OnDelete"}), owner()):
        plan = rolling_changes(other, {"a": node("a")}, {"a": [view("a1", OLD)]}, NEW, NOW, Identity())
        assert (plan.delete, plan.create) == ([], [])


def test_surge_starts_new_pods_before_old_ones_are_deleted() -> None:
    down = {"since": None}
    for title, pods, created, deleted in (
        ("one new pod", {"a": [view("a1", OLD)], "b": [view("b1", OLD)]}, ["a"], []),
        ("it is not ready", {"a": [view("a1", OLD), view("a2", **down)], "b": [view("b1", OLD)]}, [], []),
        ("it is ready", {"a": [view("a1", OLD), view("a2")], "b": [view("b1", OLD)]}, ["b"], ["a1"]),
        ("broken old pods do not wait", {"a": [view("a1", OLD)], "b": [view("b1", OLD, **down)]}, ["a", "b"], []),
        ("done", {"a": [view("a1")], "b": [view("b1")]}, [], []),
        ("deleting", {"a": [view("a1", OLD, deleted="x"), view("a2")], "b": [view("b1")]}, [], []),
    ):
        nodes = {name: node(name) for name in "ab"}
        plan = rolling_changes(rolling(maxSurge=1), nodes, pods, NEW, NOW, Identity())
        assert (plan.create, [pod.metadata.name for pod in plan.delete]) == (created, deleted), title


def test_surge_is_a_number_or_share_of_the_nodes() -> None:
    for found, expected in ((rolling(maxSurge=2), 2), (rolling(maxSurge="10%"), 1), (rolling(), 0), (owner(), 0)):
        assert max_surge(found, 5) == expected, found
    assert max_surge(owner(updateStrategy={"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}), 5) == 0


def test_taints_prevent_the_start_of_pods_or_evict_them() -> None:
    def of(**spec: Any) -> Object:
        return owner(template={"spec": spec})

    affinity = with_node({}, "n")
    tolerations = [{"key": "x", "operator": "Exists"}]
    blocked, evicted = {"key": "x", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}
    for title, found, at, expected in (
        ("no template", owner(), node(), (True, True)),
        ("no taints", of(), node(), (True, True)),
        ("preferred", of(), node("n", {"key": "x", "effect": "PreferNoSchedule"}), (True, True)),
        ("no schedule", of(), node("n", blocked), (False, True)),
        ("no execute", of(), node("n", evicted), (False, False)),
        ("both", of(), node("n", blocked, evicted), (False, False)),
        ("tolerated", of(tolerations=tolerations), node("n", evicted), (True, True)),
        (
            "unschedulable",
            of(),
            node("n", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}),
            (True, True),
        ),
        ("named", of(nodeName="n"), node(), (True, True)),
        ("another is named", of(nodeName="m"), node(), (False, False)),
        ("selected", of(nodeSelector={"a": "b"}), node(a="b"), (True, True)),
        ("not selected", of(nodeSelector={"a": "b"}), node(), (False, False)),
        ("affinity", of(affinity=affinity), node(), (True, True)),
        ("affinity to another", of(affinity=affinity), node("m"), (False, False)),
        ("affinity to nothing", of(affinity={"nodeAffinity": {REQUIRED: {}}}), node(), (False, False)),
    ):
        assert should_run(found, at, Identity()) == expected, title


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_pods_on_the_network_of_the_node_tolerate_its_absence() -> None:
    added = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
    own = daemon_tolerations({}, Identity())
    assert (len(own), added in own) == (6, False)
    assert added in daemon_tolerations({"hostNetwork": True}, Identity())
    assert daemon_tolerations({"tolerations": own[:2]}, Identity()) == own


def test_other_affinity_of_the_template_is_kept() -> None:
    given = {"podAffinity": {"x": 1}, "nodeAffinity": {"preferred": [], REQUIRED: {"nodeSelectorTerms": [{}]}}}
    found = with_node(given, "n")
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    assert found == {
        "podAffinity": {"x": 1},
        "nodeAffinity": {"preferred": [], REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}},
    }
    assert given["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [{}]}


def test_status_counts_the_oldest_pod_of_each_node() -> None:
    tainted = node("d", {"key": "x", "effect": "NoSchedule"})
    nodes = {**{name: node(name) for name in "abc"}, "d": tainted, "e": tainted}
    pods = {
        "a": [view("a2", NEW, since=None, created="2"), view("a1", OLD, created="1")],  # A surge.
        "b": [view("b1", since="2026-01-01T11:59:30Z")],
        "d": [view("d1")],
        "e": [view("e1", deleted="x", phase="Failed")],
    }
    found = daemon_status(
        {**owner(minReadySeconds=60), "status": {"collisionCount": 1}}, nodes, pods, NEW, NOW, Identity()
    )
    assert found == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 3,
        "numberReady": 2,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "collisionCount": 1,
    }
    unbound = {"a": [view("a1", OLD, node="", created="1"), view("a2", NEW, created="2")]}
    assert daemon_status(owner(), {"a": node("a")}, unbound, NEW, NOW, Identity())["updatedNumberScheduled"] == 1
    deleting = {"a": [view("a1", deleted="x")]}
    found = daemon_status({**owner(), "metadata": {"generation": 3}}, {"a": node("a")}, deleting, NEW, NOW, Identity())
    assert (found["currentNumberScheduled"], found["observedGeneration"]) == (1, 3)
    assert daemon_status(owner(), {}, {}, NEW, NOW, Identity()) == dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    )


async def test_surplus_and_terminated_pods_are_deleted(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock, "daemonset-controller") as found:
        await add_node(found, "a")
        await found.create("daemonsets", daemon_set(), "apps")
        await bind(found)
        (first,) = found.pods()
        copy = {**first, "metadata": {**first["metadata"], "name": "copy", "uid": "copy"}}
        copy["metadata"]["creationTimestamp"] = "9999-01-01T00:00:00Z"
        store.put("core/pods", copy)
        await found.rest()
        without_copy = alive(found)
        await found.delete("core/pods", "default/copy")
        for phase in ("Succeeded", "Failed"):
            (name,) = alive(found)
            await found.finish(name, phase)
            assert name not in alive(found), phase
            await bind(found)
        (name,) = alive(found)
        await found.finish(name, "Failed")
        before = alive(found)  # A second failure on the node is replaced after a pause.
        await found.advance(2)
        after = alive(found)
        notes = found.notes()
    assert without_copy == [first["metadata"]["name"]]
    assert before == [name]
    assert name not in after
    assert f"Found failed daemon pod default/{name} on node a, will try to kill it" in notes


def alive(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" not in pod["metadata"]]


async def test_pods_leave_nodes_that_do_not_match_any_more(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        for name in "abc":
            await add_node(found, name, disk="ssd")
        await found.create("daemonsets", daemon_set(template=template("agent", nodeSelector={"disk": "ssd"})), "apps")
        await bind(found)
        taints = [{"key": "x", "effect": "NoSchedule"}]
        for name, change in (("a", {"metadata": {"labels": {}}}), ("b", {"spec": {"taints": taints}})):
            obj = found.read("core/nodes", name)
            store.put("core/nodes", {**obj, **{key: {**obj[key], **value} for key, value in change.items()}})
            await found.rest()
        await found.delete("core/nodes", "c")
        await found.change(SETS, AGENT, minReadySeconds=0)
        status = found.read(SETS, AGENT)["status"]
        assert nodes_of(found) == ["b"]
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 2)


async def test_empty_selector_is_reported(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        obj = daemon_set(selector={})
        store.put(SETS, {**obj, "metadata": {"name": "agent", "namespace": "default", "uid": "u"}, "kind": "DaemonSet"})
        await found.rest()
        assert "This daemon set is selecting all pods. A non-empty selector is required." in found.notes()


async def test_pod_has_the_labels_of_its_revision(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await add_node(found, "a")
        await found.create("daemonsets", daemon_set(), "apps")
        (pod,) = found.pods()
        (revision,) = found.list("apps/controllerrevisions")
    assert pod["metadata"]["labels"] == {
        "app": "agent",
        "controller-revision-hash": revision["metadata"]["labels"]["controller-revision-hash"],
        "pod-template-generation": "1",
    }


async def put_node(found: Cluster, name: str, *, taints: list[Object] | None = None) -> None:
    """Store a node together with the changes before."""
    found.store.put("core/nodes", {"metadata": {"name": name, "uid": name}, "spec": {"taints": taints or []}})
    await found.rest()


def put_pod(found: Cluster, name: str, digest: str = "", node: str = "a", **metadata: Any) -> None:
    """Store a running pod of the DaemonSet with the revision *digest*, by default the current one."""
    owner = found.read(SETS, AGENT)["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": owner["uid"], "controller": True}
    revisions = found.list("apps/controllerrevisions")
    labels = {"app": "agent", HASH_LABEL: digest or revisions[-1]["metadata"]["labels"][HASH_LABEL]}
    fields = {"name": name, "namespace": "default", "uid": name, "labels": labels, "ownerReferences": [reference]}
    spec, status = {"nodeName": node, "containers": []}, {"phase": "Running"}
    found.store.put("core/pods", {"metadata": {**fields, **metadata}, "spec": spec, "status": status})


def active(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" not in pod["metadata"]]


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [({"labels": {"disk": "ssd"}}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}), ({"labels": {}}, {})],
)
async def test_changed_labels_or_taints_of_a_node_start_pods(
    store: MeteredStore, metadata: Object, spec: Object
) -> None:
    tolerations = [{"key": "y", "operator": "Exists"}]
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        store.put("core/nodes", {"metadata": {"name": "a", "uid": "a", **metadata}, "spec": spec})
        pod = template("agent", nodeSelector={"disk": "ssd"}, tolerations=tolerations)
        await found.create("daemonsets", daemon_set(template=pod), "apps")
        before = len(found.pods())
        store.put("core/nodes", {"metadata": {"name": "a", "uid": "a", "labels": {"disk": "ssd"}}, "spec": {}})
        await found.rest()
        assert (before, len(found.pods())) == (0, 1)


async def test_oldest_pod_of_a_node_remains(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await found.create("daemonsets", daemon_set(updateStrategy={"type": "OnDelete"}), "apps")
        put_pod(found, "a-new", creationTimestamp="2024-01-02T00:00:00Z")
        put_pod(found, "b-old", "other", creationTimestamp="2024-01-01T00:00:00Z")
        await put_node(found, "a")
        assert active(found) == ["b-old"]


async def test_old_and_new_pod_run_during_a_surge(store: MeteredStore) -> None:
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await found.create("daemonsets", daemon_set(updateStrategy=surge), "apps")
        for name, digest in (("new-1", ""), ("new-2", ""), ("old-1", "other"), ("old-2", "other")):
            put_pod(found, name, digest)
        await put_node(found, "a")
        assert active(found) == ["new-1", "old-1"]


@pytest.mark.parametrize(("phase", "remaining"), [("Running", ["p"]), ("Failed", []), ("Succeeded", [])])
async def test_terminated_pods_leave_nodes_where_none_may_start(
    store: MeteredStore, phase: str, remaining: list[str]
) -> None:
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await found.create("daemonsets", daemon_set(), "apps")
        put_pod(found, "p")
        pod = found.read("core/pods", "default/p")
        store.put("core/pods", {**pod, "status": {"phase": phase}})
        await put_node(found, "a", taints=[{"key": "x", "effect": "NoSchedule"}])
        assert active(found) == remaining


async def test_rejected_pods_are_created_later(store: MeteredStore) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == "core/pods":
            raise ApiError(403, "Forbidden", "rejected", {})

    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await add_node(found, "a")
        store.before_update = reject
        await found.create("daemonsets", daemon_set(), "apps")
        status = found.read(SETS, AGENT)["status"]
        store.before_update = None
        await found.advance(60)
        assert len(found.pods()) == 1
    assert (status["desiredNumberScheduled"], status["currentNumberScheduled"]) == (1, 0)


async def test_pods_are_available_after_their_minimum_time_ready(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await add_node(found, "a")
        await found.create("daemonsets", daemon_set(minReadySeconds=10), "apps")
        await bind(found)
        counts = []
        for seconds in (0, 9, 1):
            await found.advance(seconds)
            counts.append(found.read(SETS, AGENT)["status"].get("numberAvailable", 0))
    assert counts == [0, 0, 1]


async def test_revisions_remain_while_pods_have_them(store: MeteredStore) -> None:
    spec = {"updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": 0}
    async with cluster(store, FakeClock(), "daemonset-controller") as found:
        await add_node(found, "a")
        await found.create("daemonsets", daemon_set(**spec), "apps")
        await bind(found)
        for number in (2, 3):
            await found.change(SETS, AGENT, template=template("agent", f"example.com/web:{number}"))
        during = [item["revision"] for item in found.list("apps/controllerrevisions")]
        await found.delete("core/pods", f"default/{active(found)[0]}")
        await found.change(SETS, AGENT, minReadySeconds=1)
        after = [item["revision"] for item in found.list("apps/controllerrevisions")]
    assert (sorted(during), after) == ([1, 3], [3])
