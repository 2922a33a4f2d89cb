"""Tests for the NodeRestriction admission plugin: writes that the agent of a node must not make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission.plugins.node_restriction import NodeRestriction
from apiserver_stub.apimachinery.request import User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.admission.conftest import make_call

AGENT = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SLICES = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
MIRROR = {"kubernetes.io/config.mirror": "x"}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
RELEASE = Release(1, 36)
PODS = {"bound": "n1", "other": "n2"}


class Cluster:
    """Lister of the node and two pods."""

    def find(self, collection: str, name: str, namespace: str = "") -> Any:
        if collection == "core/nodes":
            return {"metadata": {"name": name, "uid": "u1"}} if name == "n1" else None
        if collection == "core/pods" and name in PODS:
            return {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": PODS[name]}}
        return None


async def rejection(*, user: User = AGENT, release: Release = RELEASE, gates: Any = None, **attributes: Any) -> str:
    """Return the reason for which a write is rejected, empty if it is admitted."""

    async def authorize(user: User, info: Any) -> tuple[bool, str]:
        return info.resource == "allowed", ""

    context: Any = SimpleNamespace(
        identity=Identity(),
        gates=build_gates(gates or {}, release),
        lister=Cluster(),
        release=release,
        authorize=authorize,
    )
    try:
        await NodeRestriction(context).admit(make_call(user=user, **attributes))
    except ApiError as error:
        return str(error)
    return ""


def node(name: str = "n1", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": spec or {}}


@pytest.mark.parametrize(
    ("user", "rejected"),
    [
        (AGENT, True),
        (User("system:node:n1"), False),
        (User("admin", groups=("system:nodes",)), False),
        (User("system:node:", groups=("system:nodes",)), True),
    ],
    ids=["agent", "no group", "no agent", "no name"],
)
@pytest.mark.row("admission.NodeRestriction")
async def test_only_users_of_node_agents_are_restricted(user: User, rejected: bool) -> None:
    assert bool(await rejection(user=user, new=node("n2"), resource=NODES)) == rejected


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (node(), ""),
        (node("n2"), "modify node"),
        (node(spec={"configSource": {}}), "non-nil configSource"),
        (node(labels={"example.com/a": "b", "kubernetes.io/os": "linux", "kubelet.kubernetes.io/x": "y"}), ""),
        (node(labels={"kubernetes.io/a": "b"}), "kubernetes.io/a"),
        (node(labels={"a.k8s.io/a": "b"}), "a.k8s.io/a"),
        (node(labels={"node-restriction.kubernetes.io/a": "b"}), "node-restriction.kubernetes.io/a"),
        (node(labels={"a.node-restriction.kubernetes.io/a": "b"}), "a.node-restriction.kubernetes.io/a"),
    ],
)
async def test_node_is_created_without_reserved_settings(new: dict[str, Any], problem: str) -> None:
    found = await rejection(new=new, resource=NODES)

    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("new", "old", "problem"),
    [
        (node(spec={"podCIDR": "10.0.0.0/24"}), node(), ""),
        (node("n2"), node("n2"), "modify node"),
        (node(spec={"configSource": {"a": 1}}), node(), "configSource"),
        (node(spec={"configSource": {"a": 1}}), node(spec={"configSource": {"a": 1}}), ""),
        (node(), node(spec={"configSource": {"a": 1}}), ""),
        (node(spec={"taints": [{"key": "a"}]}), node(), "taints"),
        (node(), node(spec={"taints": [{"key": "a"}]}), "taints"),
        (node(spec={"taints": []}), node(), ""),
        (node(ownerReferences=[{"name": "a"}]), node(), "ownerReferences"),
        (node(labels={"kubernetes.io/a": "b"}), node(), "kubernetes.io/a"),
        (node(), node(labels={"kubernetes.io/a": "b"}), "kubernetes.io/a"),
        (node(labels={"kubernetes.io/a": "b"}), node(labels={"kubernetes.io/a": "b"}), ""),
        (node(labels={"example.com/a": "b"}), node(), ""),
    ],
)
async def test_node_is_updated_without_reserved_settings(
    new: dict[str, Any], old: dict[str, Any], problem: str
) -> None:
    found = await rejection(new=new, old=old, resource=NODES, operation="UPDATE")

    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(("name", "rejected"), [("n1", False), ("n2", True)])
async def test_node_deletes_only_itself(name: str, rejected: bool) -> None:
    assert bool(await rejection(old=node(name), resource=NODES, operation="DELETE")) == rejected


def pod(
    owners: Any = (OWNER,), annotations: Any = MIRROR, spec: Any = None, name: str = "static", **fields: Any
) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations, "ownerReferences": list(owners)}
    return {"metadata": metadata, "spec": spec if spec is not None else {"nodeName": "n1"}, **fields}


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (pod(), ""),
        (pod(annotations={}), "can only create mirror pods"),
        (pod(spec={"nodeName": "n2"}), "spec.nodeName set to itself"),
        (pod(spec={}), "spec.nodeName set to itself"),
        (pod(spec={"nodeName": "n1", "serviceAccountName": "a"}), "reference serviceaccounts"),
        (pod(owners=[OWNER, OWNER]), "a single owner reference"),
        (pod(owners=[]), "an owner reference set to itself"),
        (pod(owners=[{**OWNER, "kind": "Pod"}]), "an owner reference set to itself"),
        (pod(owners=[{**OWNER, "name": "n2"}]), "an owner reference set to itself"),
        (pod(owners=[{**OWNER, "controller": False}]), "a controller owner reference"),
        (pod(owners=[{**OWNER, "blockOwnerDeletion": True}]), "must not set blockOwnerDeletion"),
        (pod(owners=[{**OWNER, "uid": "u2"}]), "UID mismatch: expected u2 got u1"),
        (pod(owners=[{**OWNER, "uid": None}]), "UID mismatch: expected  got u1"),
    ],
)
async def test_node_creates_only_its_mirror_pods(new: dict[str, Any], problem: str) -> None:
    found = await rejection(new=new)

    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(("name", "problem"), [("bound", ""), ("other", "set to itself"), ("absent", "not found")])
@pytest.mark.parametrize(("operation", "subresource"), [("DELETE", ""), ("CREATE", "eviction")])
async def test_node_deletes_and_evicts_only_its_pods(operation: str, subresource: str, name: str, problem: str) -> None:
    attributes = {"operation": operation, "subresource": subresource}
    found = await rejection(new={"metadata": {"name": name}}, **attributes)

    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("operation", "subresource"), [("UPDATE", ""), ("CREATE", "status"), ("UPDATE", "eviction"), ("CREATE", "binding")]
)
async def test_node_makes_no_other_writes_of_pods(operation: str, subresource: str) -> None:
    assert await rejection(new=pod(), old=pod(), operation=operation, subresource=subresource)


@pytest.mark.parametrize(
    ("new", "old", "release", "problem"),
    [
        (pod(), pod(), RELEASE, ""),
        (pod(), pod(spec={"nodeName": "n2"}), RELEASE, "set to itself"),
        (pod(status={"resourceClaimStatuses": []}), pod(), RELEASE, ""),
        (pod(status={"resourceClaimStatuses": [{"name": "a"}]}), pod(), RELEASE, "resource claim statues"),
        (pod(status={"extendedResourceClaimStatus": {}}), pod(), Release(1, 34), "extended resource claim"),
        (pod(status={"extendedResourceClaimStatus": {}}), pod(), Release(1, 33), ""),
    ],
)
async def test_node_updates_only_the_status_of_its_pods(
    new: dict[str, Any], old: dict[str, Any], release: Release, problem: str
) -> None:
    found = await rejection(new=new, old=old, operation="UPDATE", subresource="status", release=release)

    assert problem in found
    assert bool(found) == bool(problem)


async def test_node_updates_no_labels_through_the_status() -> None:
    new, old = pod(), pod()
    new["metadata"]["labels"] = {"a": "b"}

    assert "labels" in await rejection(new=new, old=old, operation="UPDATE", subresource="status")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"status": {"capacity": {"storage": "2Gi"}, "conditions": [{}], "phase": "Bound"}}, ""),
        ({"metadata": {"name": "c", "resourceVersion": "2", "managedFields": [{}]}}, ""),
        ({"status": {"phase": "Lost"}}, "other than status.capacity"),
        ({"metadata": {"name": "c", "labels": {"a": "b"}}}, "other than status.capacity"),
    ],
)
async def test_node_updates_only_the_size_of_claims(change: dict[str, Any], problem: str) -> None:
    old = {"metadata": {"name": "c", "resourceVersion": "1"}, "status": {"phase": "Bound"}}
    attributes = {"old": old, "resource": CLAIMS, "operation": "UPDATE", "subresource": "status"}
    found = await rejection(new={**old, **change}, **attributes)

    assert problem in found
    assert bool(found) == bool(problem)
    assert await rejection(new=old, **{**attributes, "subresource": ""})
    assert await rejection(new=old, **{**attributes, "operation": "CREATE"})


@pytest.mark.parametrize(("name", "rejected"), [("n1", False), ("n2", True)])
async def test_node_writes_only_the_object_with_its_name(name: str, rejected: bool) -> None:
    nodes = Resource("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)

    assert bool(await rejection(new=node(name), resource=nodes)) == rejected


async def test_node_writes_no_lease_of_other_namespaces() -> None:
    leases = Resource("coordination.k8s.io", "v1", "Lease", "leases")

    assert "system namespace" in await rejection(new=node(), resource=leases)


@pytest.mark.parametrize(
    ("operation", "name", "release", "rejected"),
    [
        ("CREATE", "n1", RELEASE, False),
        ("CREATE", "n2", RELEASE, True),
        ("CREATE", "n2", Release(1, 29), False),
        ("CREATE", "n2", Release(1, 30), True),
        ("UPDATE", "n2", RELEASE, False),
        ("DELETE", "n1", RELEASE, False),
        ("DELETE", "n2", RELEASE, True),
    ],
)
async def test_node_writes_only_its_resource_slices(
    operation: str, name: str, release: Release, rejected: bool
) -> None:
    obj = {"metadata": {"name": "s"}, "spec": {"nodeName": name}}
    new = {"old": obj} if operation == "DELETE" else {"new": obj, "old": obj}

    assert bool(await rejection(**new, resource=SLICES, operation=operation, release=release)) == rejected


@pytest.mark.parametrize(("name", "rejected"), [("n1", False), ("n2", True)])
async def test_node_writes_only_its_lease(name: str, rejected: bool) -> None:
    leases = Resource("coordination.k8s.io", "v1", "Lease", "leases")
    found = await rejection(new=node(name), resource=leases, namespace="kube-node-lease")

    assert ("can only access node lease with the same name as the requesting node" in found) == rejected


ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")


@pytest.mark.parametrize(
    ("operation", "subresource", "rejected"),
    [("CREATE", "token", True), ("CREATE", "", False), ("UPDATE", "token", False), ("UPDATE", "", False)],
)
async def test_only_tokens_of_service_accounts_are_checked(operation: str, subresource: str, rejected: bool) -> None:
    found = await rejection(new=node("a"), resource=ACCOUNTS, operation=operation, subresource=subresource)

    assert ("node requested token not bound to a pod" in found) == rejected


@pytest.mark.parametrize(("enabled", "rejected"), [("false", True), ("true", False)])
async def test_signing_requests_are_checked_unless_a_gate_permits_them(enabled: str, rejected: bool) -> None:
    requests = Resource("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
    new = {"metadata": {"name": "r"}, "spec": {"signerName": "kubernetes.io/kubelet-serving"}}
    gates = {"AllowInsecureNodeAgentCertificateSigningRequests": enabled == "true"}

    assert bool(await rejection(new=new, resource=requests, gates=gates)) == rejected
