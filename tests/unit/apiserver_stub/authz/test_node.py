"""Tests for the Node authorizer: permissions of nodes, and objects that their pods refer to."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz.graph import PODS, VOLUMES
from apiserver_stub.authz.node import NodeAuthorizer
from apiserver_stub.feature_gates import build_gates
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.authz.conftest import ALICE, to

NODE, OTHER = User("system:node:n1", groups=("system:nodes",)), User("system:node:n2", groups=("system:nodes",))
STRANGE = "no relationship found between node 'n1' and this object"


def pod(name: str = "web", node: str = "n1", *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "a", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [], **spec}}


async def reason(store: Any, info: RequestInfo, user: User = NODE) -> str | None:
    """Return the reason why *user* is not authorized, else ``None``."""
    decision = await NodeAuthorizer(store, Identity()).authorize(user, info)
    return None if decision.allowed else decision.reason


@pytest.mark.row("opt.authorization-mode")
@pytest.mark.parametrize(
    ("plural", "name", "spec"),
    [
        ("serviceaccounts", "x", {"serviceAccountName": "x"}),
        ("secrets", "x", {"imagePullSecrets": [{"name": "x"}]}),
        ("secrets", "x", {"containers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}),
        ("configmaps", "x", {"initContainers": [{"envFrom": [{"configMapRef": {"name": "x"}}]}]}),
        ("secrets", "x", {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "x"}}}]}]}),
        ("configmaps", "x", {"ephemeralContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "x"}}}]}]}),
        ("secrets", "x", {"volumes": [{"secret": {"secretName": "x"}}]}),
        ("secrets", "x", {"volumes": [{"csi": {"nodePublishSecretRef": {"name": "x"}}}]}),
        ("secrets", "x", {"volumes": [{"iscsi": {"secretRef": {"name": "x"}}}]}),
        ("configmaps", "x", {"volumes": [{"configMap": {"name": "x"}}]}),
        ("secrets", "x", {"volumes": [{"projected": {"sources": [{"secret": {"name": "x"}}]}}]}),
        ("configmaps", "x", {"volumes": [{"projected": {"sources": [{"configMap": {"name": "x"}}]}}]}),
        ("persistentvolumeclaims", "x", {"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}),
        ("persistentvolumeclaims", "web-data", {"volumes": [{"name": "data", "ephemeral": {}}]}),
        ("resourceclaims", "x", {"resourceClaims": [{"name": "r", "source": {"resourceClaimName": "x"}}]}),
        ("resourceclaims", "x", {"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]}),
    ],
)
async def test_objects_of_a_pod_are_readable_only_by_its_node(
    store: Any, plural: str, name: str, spec: dict[str, Any]
) -> None:
    if spec.get("volumes", [{}])[0].get("ephemeral") is not None:
        spec = {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}
    store.put(PODS, pod(**spec))
    group = "resource.k8s.io" if plural == "resourceclaims" else ""
    about = f"{plural}/token" if plural == "serviceaccounts" else plural
    info = to("create" if plural == "serviceaccounts" else "get", about, "a", name, group=group)

    assert await reason(store, info) is None
    assert await reason(store, info, OTHER) == STRANGE.replace("n1", "n2")
    assert await reason(store, to(info.verb, about, "b", name, group=group)) == STRANGE


async def test_objects_of_a_volume_are_readable_once_bound(store: Any) -> None:
    store.put(PODS, pod(volumes=[{"persistentVolumeClaim": {"claimName": "data"}}]))
    secrets = {"nodeStageSecretRef": {"name": "s", "namespace": "z"}, "controllerPublishSecretRef": {"name": "c"}}
    spec: Object = {"csi": secrets}
    volume, secret = to("get", "persistentvolumes", name="pv"), to("get", "secrets", "z", "s")
    store.put(VOLUMES, {"metadata": {"name": "pv"}, "spec": spec})
    assert await reason(store, volume) == STRANGE

    spec["claimRef"] = {"namespace": "a", "name": "data"}
    store.put(VOLUMES, {"metadata": {"name": "pv"}, "spec": spec})

    assert await reason(store, volume) is None
    assert await reason(store, secret) is None
    assert await reason(store, to("get", "secrets", "a", "c")) == STRANGE
    assert await reason(store, secret, OTHER) is not None


async def test_attachments_are_readable_by_their_node(store: Any) -> None:
    store.put("storage.k8s.io/volumeattachments", {"metadata": {"name": "va"}, "spec": {"nodeName": "n1"}})
    info = to("get", "volumeattachments", name="va", group="storage.k8s.io")

    assert await reason(store, info) is None
    assert await reason(store, info, OTHER) is not None


async def test_permissions_follow_pod_changes(store: Any) -> None:
    nodes, info = NodeAuthorizer(store, Identity()), to("get", "secrets", "a", "x")

    async def may(user: User) -> bool:
        return (await nodes.authorize(user, info)).allowed

    needy: dict[str, Any] = {"imagePullSecrets": [{"name": "x"}]}
    store.put(PODS, pod("one", "", **needy))
    assert not await may(NODE)
    store.put(PODS, pod("one", "n1", **needy))
    store.put(PODS, pod("two", "n1", **needy))
    assert await may(NODE)
    store.remove(PODS, "a/one")
    assert await may(NODE)
    store.put(PODS, pod("two", "n2", **needy))
    assert not await may(NODE)
    assert await may(OTHER)
    store.remove(PODS, "a/two")
    assert not await may(OTHER)
    assert not nodes._graph._nodes


async def test_mirror_pod_grants_no_permission(store: Any) -> None:
    mirror = {"kubernetes.io/config.mirror": "x"}
    store.put(PODS, pod(annotations=mirror, imagePullSecrets=[{"name": "x"}]))

    assert await reason(store, to("get", "secrets", "a", "x")) == STRANGE


LEASES, STORAGE = "coordination.k8s.io", "storage.k8s.io"


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (to("list", "secrets"), "can only read namespaced object of this type"),
        (to("list", "secrets", "a"), "No Object name found"),
        (to("list", "configmaps", "a", "x"), STRANGE),
        (to("update", "secrets", "a", "x"), "can only read resources of this type"),
        (to("get", "configmaps/status", "a", "x"), "cannot read subresource"),
        (to("list", "persistentvolumes"), "can only get individual resources of this type"),
        (to("get", "persistentvolumes/status", name="x"), "cannot get subresource"),
        (to("delete", "persistentvolumeclaims/status", "a", "x"), "can only get/update/patch this type"),
        (to("get", "serviceaccounts", "a", "x"), "can only create tokens for individual service accounts"),
        (to("create", "serviceaccounts", "a", "x"), "can only create token subresource of serviceaccount"),
        (
            to("list", "leases", "kube-node-lease", group=LEASES),
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            to("get", "leases", "a", "n1", group=LEASES),
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            to("get", "leases", "kube-node-lease", "n2", group=LEASES),
            "can only access node lease with the same name as the requesting node",
        ),
        (to("watch", "csinodes", group=STORAGE), "can only get, create, update, patch, or delete a CSINode"),
        (to("get", "csinodes/status", name="n1", group=STORAGE), "cannot authorize CSINode subresources"),
        (
            to("get", "csinodes", name="n2", group=STORAGE),
            "can only access CSINode with the same name as the requesting node",
        ),
        (to("create", "events", "a", group="events.k8s.io"), ""),
        (to("delete", "nodes", name="n1"), ""),
        (to("update", "pods", "a", "x"), ""),
        (RequestInfo("get", "/metrics"), ""),
        (to("update", "leases", "kube-node-lease", "n1", group=LEASES), None),
        (to("create", "leases", "kube-node-lease", group=LEASES), None),
        (to("create", "csinodes", group=STORAGE), None),
        (to("patch", "csinodes", name="n1", group=STORAGE), None),
        (to("list", "nodes"), None),
        (to("patch", "nodes/status", name="n1"), None),
        (to("watch", "pods"), None),
        (to("patch", "pods/status", "a", "x"), None),
        (to("create", "events", "a"), None),
        (to("create", "subjectaccessreviews", group="authorization.k8s.io"), None),
        (to("create", "certificatesigningrequests", group="certificates.k8s.io"), None),
        (to("list", "runtimeclasses", group="node.k8s.io"), None),
    ],
    ids=str,
)
async def test_other_permissions_of_nodes_and_denial_reasons(store: Any, info: RequestInfo, why: str | None) -> None:
    assert await reason(store, info) == why


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (ALICE, ""),
        (User("system:node:n1"), ""),
        (User("someone", groups=("system:nodes",)), ""),
        (User("system:node:", groups=("system:nodes",)), 'unknown node for user "system:node:"'),
    ],
)
async def test_other_users_get_no_opinion(store: Any, user: User, why: str) -> None:
    assert await reason(store, to("list", "nodes"), user) == why
    assert NodeAuthorizer(store, Identity()).rules(ALICE, "a").incomplete is False
    assert NodeAuthorizer(store, Identity()).rules(NODE, "a").incomplete is True


def read(verb: str, resource: str, name: str = "", *, namespace: str = "", node: str = "") -> RequestInfo:
    return RequestInfo(verb, "/", version="v1", resource=resource, name=name, namespace=namespace, selected_node=node)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (read("get", "nodes", "n1"), None),
        (read("list", "nodes", "n1"), None),
        (read("get", "nodes", "n2"), "node 'n1' cannot read 'n2', only its own Node object"),
        (read("list", "nodes"), "node 'n1' cannot read all nodes, only its own Node object"),
        (read("create", "nodes"), None),
        (read("list", "pods", node="n1"), None),
        (read("watch", "pods", node="n2"), "can only list/watch pods with spec.nodeName field selector"),
        (read("list", "pods"), "can only list/watch pods with spec.nodeName field selector"),
        (read("get", "pods", "web", namespace="a"), None),
        (read("get", "pods", "other", namespace="a"), STRANGE),
        (read("get", "serviceaccounts", "default", namespace="a"), None),
        (read("get", "serviceaccounts", "other", namespace="a"), STRANGE),
    ],
)
async def test_node_of_newest_release_reads_only_its_own_objects(
    store: Any, info: RequestInfo, expected: str | None
) -> None:
    store.put(PODS, pod(serviceAccountName="default"))
    store.put(PODS, pod("other", "n2", serviceAccountName="other"))
    authorizer = NodeAuthorizer(store, Identity(), build_gates({}, Release(1, 36)))

    decision = await authorizer.authorize(NODE, info)

    assert (None if decision.allowed else decision.reason) == expected


SLICES, CERTIFICATES = "resourceslices.resource.k8s.io", "podcertificaterequests.certificates.k8s.io"


@pytest.mark.parametrize(
    ("minor", "verb", "resource", "node", "allowed"),
    [
        (29, "list", SLICES, "", False),
        (30, "list", SLICES, "", True),
        (30, "create", SLICES, "", True),
        (36, "list", SLICES, "", False),
        (36, "list", SLICES, "n1", True),
        (36, "list", SLICES, "n2", False),
        (36, "watch", CERTIFICATES, "n1", True),
        (36, "watch", CERTIFICATES, "n2", False),
        (36, "update", "nodes/status", "", True),
        (36, "patch", "nodes/status", "", True),
        (36, "get", "nodes/status", "", False),
        (36, "update", "nodes/proxy", "", False),
        (36, "update", "pods/status", "", True),
        (36, "create", "pods/status", "", False),
        (36, "create", "pods/eviction", "", True),
        (36, "update", "pods/eviction", "", False),
        (36, "update", "pods/exec", "", False),
        (36, "update", "persistentvolumeclaims/status", "", True),
        (36, "patch", "persistentvolumeclaims/status", "", True),
        (36, "get", "persistentvolumeclaims/status", "", False),
    ],
)
async def test_verbs_of_nodes_follow_the_release(
    store: Any, minor: int, verb: str, resource: str, node: str, *, allowed: bool
) -> None:
    release = Release(1, minor)
    gates = {"PodCertificateRequest": True} if minor == 36 else {}
    store.put(PODS, pod(volumes=[{"persistentVolumeClaim": {"claimName": "n1"}}]))
    authorizer = NodeAuthorizer(store, Identity(), build_gates(gates, release), release)
    label, _, subresource = resource.partition("/")
    plural, _, group = label.partition(".")
    info = RequestInfo(verb, "", group, "v1", plural, subresource, "a", "n1", selected_node=node)

    assert (await authorizer.authorize(NODE, info)).allowed is allowed


async def test_secrets_of_volumes_are_readable_until_the_last_one_is_deleted(store: Any) -> None:
    store.put(PODS, pod(volumes=[{"persistentVolumeClaim": {"claimName": name}} for name in ("one", "two")]))
    for name in ("one", "two"):
        claim, source = {"namespace": "a", "name": name}, {"secretName": "s"}
        store.put(VOLUMES, {"metadata": {"name": name}, "spec": {"claimRef": claim, "azureFile": source}})
    authorizer, secret = NodeAuthorizer(store, Identity()), to("get", "secrets", "a", "s")
    allowed = []

    for name in ("", "one", "two"):
        if name:
            store.remove(VOLUMES, name)
        allowed.append((await authorizer.authorize(NODE, secret)).allowed)

    assert allowed == [True, True, False]
    claim, source = {"namespace": "a", "name": "one"}, {"secretName": "s", "secretNamespace": "z"}
    store.put(VOLUMES, {"metadata": {"name": "v"}, "spec": {"claimRef": claim, "azureFile": source}})
    for namespace, expected in (("a", False), ("z", True)):
        assert (await authorizer.authorize(NODE, to("get", "secrets", namespace, "s"))).allowed is expected
