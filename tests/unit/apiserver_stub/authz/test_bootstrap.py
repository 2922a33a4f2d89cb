"""Tests for the default roles and bindings and their reconciliation at startup."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authz.bootstrap import ensure_bootstrap_policy, node_rules
from apiserver_stub.authz.rbac import Rbac, RbacNames
from apiserver_stub.controllers.cluster_role_aggregation import aggregate_roles
from apiserver_stub.feature_gates import build_gates
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.authz.conftest import ALICE, group_subject, rule, to, user_subject

RBAC = RbacNames.of(Identity())

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


async def test_default_roles_are_labeled_and_written_once(store: Any) -> None:
    await ensure_bootstrap_policy(store, Identity())
    await aggregate_roles(store, Identity())
    writes = store.writes

    await ensure_bootstrap_policy(store, Identity())
    await aggregate_roles(store, Identity())

    assert store.writes == writes
    for collection in (RBAC.roles, RBAC.cluster_roles, RBAC.bindings, RBAC.cluster_bindings):
        records = store.collection(collection).select()
        assert records
        for record in records:
            metadata = objects.decode(record.data)["metadata"]
            assert metadata["annotations"] == {AUTOUPDATE: "true"}
            assert metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
            assert metadata["uid"]


@pytest.mark.parametrize(
    ("user", "info", "allowed"),
    [
        (ANONYMOUS, RequestInfo("get", "/version"), True),
        (ANONYMOUS, RequestInfo("get", "/readyz/etcd"), False),
        (ANONYMOUS, RequestInfo("get", "/api"), False),
        (ALICE, RequestInfo("get", "/apis/apps"), True),
        (ALICE, RequestInfo("get", "/metrics"), False),
        (ALICE, to("create", "selfsubjectrulesreviews", group="authorization.k8s.io"), True),
        (User("m", groups=("system:monitoring",)), RequestInfo("get", "/metrics"), True),
        (User("s", groups=("system:serviceaccounts",)), RequestInfo("get", "/openid/v1/jwks"), True),
        (User("system:kube-scheduler"), to("create", "pods/binding", "a", "p"), True),
        (User("system:kube-scheduler"), to("update", "leases", "a", "other", group="coordination.k8s.io"), False),
        (User("system:kube-proxy"), to("watch", "endpointslices", group="discovery.k8s.io"), True),
        (User("system:node:n", groups=("system:nodes",)), to("get", "nodes", name="n"), False),
        (User("system:serviceaccount:kube-system:job-controller"), to("create", "pods", "a"), True),
        (User("system:serviceaccount:a:job-controller"), to("create", "pods", "a"), False),
        (User("system:kube-controller-manager"), to("watch", "anything", group="any.example"), True),
    ],
)
async def test_permissions_of_default_roles(store: Any, user: User, info: RequestInfo, allowed: bool) -> None:
    await ensure_bootstrap_policy(store, Identity())

    assert (await Rbac(store, Identity()).authorize(user, info)).allowed is allowed


async def test_view_edit_and_admin_are_nested(store: Any) -> None:
    await ensure_bootstrap_policy(store, Identity())
    await aggregate_roles(store, Identity())
    for name in ("view", "edit", "admin"):
        store.bind(name, f"ClusterRole/{name}", user_subject(name), namespace="a")
    authorizer = Rbac(store, Identity())

    async def who_may(info: RequestInfo) -> list[str]:
        return [name for name in ("view", "edit", "admin") if (await authorizer.authorize(User(name), info)).allowed]

    assert await who_may(to("list", "pods", "a")) == ["view", "edit", "admin"]
    assert await who_may(to("get", "secrets", "a")) == ["edit", "admin"]
    assert await who_may(to("create", "pods/eviction", "a")) == ["edit", "admin"]
    assert await who_may(to("create", "rolebindings", "a", group=RBAC.group)) == ["admin"]
    assert await who_may(to("list", "pods", "b")) == []


async def test_removed_rules_are_restored_and_added_rules_are_kept(store: Any) -> None:
    await ensure_bootstrap_policy(store, Identity())
    store.role("system:discovery", rule("get", "pods"), rule("get", paths="/api"))
    store.bind("system:discovery", "ClusterRole/other", group_subject("dev"))
    store.remove(RBAC.cluster_roles, "view")

    await ensure_bootstrap_policy(store, Identity())

    role = store.read(RBAC.cluster_roles, "system:discovery")
    assert role["rules"][:2] == [rule("get", "pods"), rule("get", paths="/api")]
    assert role["metadata"]["annotations"][AUTOUPDATE] == "true"
    assert (await Rbac(store, Identity()).authorize(ALICE, RequestInfo("get", "/openapi/v2"))).allowed
    binding = store.read(RBAC.cluster_bindings, "system:discovery")
    assert binding["roleRef"]["name"] == "system:discovery"
    assert [item["name"] for item in binding["subjects"]] == ["dev", "system:authenticated"]
    assert store.read(RBAC.cluster_roles, "view")


async def test_autoupdate_false_disables_reconciliation(store: Any) -> None:
    store.role("system:discovery", annotations={AUTOUPDATE: "false"})

    await ensure_bootstrap_policy(store, Identity())

    assert store.read(RBAC.cluster_roles, "system:discovery")["rules"] == []


def test_node_rules_are_formatted_on_one_level() -> None:
    texts = [str(item) for item in node_rules(Identity())]

    assert '{APIGroups:["node.k8s.io"], Resources:["runtimeclasses"], Verbs:["get" "list" "watch"]}' in texts
    assert not any("{" in text[1:-1] for text in texts)


@pytest.mark.parametrize(
    ("release", "granted"), [(Release(1, 29), False), (Release(1, 32), False), (Release(1, 33), True)]
)
async def test_fine_grained_subresources_are_granted_since_1_33(store: Any, release: Release, granted: bool) -> None:
    await ensure_bootstrap_policy(store, Identity(), build_gates({}, release))

    rules = store.read(RBAC.cluster_roles, "system:kubelet-api-admin")["rules"]

    assert any("nodes/configz" in item["resources"] for item in rules) is granted


@pytest.mark.parametrize(
    ("release", "granted"),
    [(Release(1, 29), (False, False)), (Release(1, 34), (True, False)), (Release(1, 36), (True, True))],
)
async def test_rules_of_later_releases_are_granted_from_there_on(
    store: Any, release: Release, granted: tuple[bool, bool]
) -> None:
    await ensure_bootstrap_policy(store, Identity(), build_gates({}, release), release)

    node, monitoring = (store.read(RBAC.cluster_roles, name)["rules"] for name in ("system:node", "system:monitoring"))

    assert any("events.k8s.io" in item.get("apiGroups", ()) for item in node) is granted[0]
    assert any("/statusz" in item.get("nonResourceURLs", ()) for item in monitoring) is granted[1]


@pytest.mark.parametrize(("release", "controllers"), [(Release(1, 33), 0), (Release(1, 36), 1)])
async def test_roles_for_resource_claims_depend_on_the_gate(store: Any, release: Release, controllers: int) -> None:
    gates = build_gates({}, release)
    await ensure_bootstrap_policy(store, Identity(), gates, release)

    roles = store.collection(RBAC.cluster_roles)
    assert (roles.get("system:controller:resource-claim-controller") is not None) == controllers
    rules = objects.decode(roles.get("system:aggregate-to-edit").data)["rules"]
    assert sum("resourceclaims" in each["resources"] for each in rules) == controllers


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
async def test_editors_cannot_direct_services_to_other_namespaces(store: Any, verb: str) -> None:
    await ensure_bootstrap_policy(store, Identity())
    await aggregate_roles(store, Identity())
    for name in ("edit", "admin"):
        store.bind(name, f"ClusterRole/{name}", user_subject(name), namespace="a")
        for resource, group in (("endpoints", ""), ("endpointslices", "discovery.k8s.io")):
            info = to(verb, resource, "a", "web", group=group)
            assert not (await Rbac(store, Identity()).authorize(User(name), info)).allowed


@pytest.mark.parametrize(
    ("user", "info", "since"),
    [
        ("cronjob-controller", to("watch", "pods", "a"), 36),
        ("namespace-controller", to("watch", "anything", group="any.example"), 36),
        (
            "validatingadmissionpolicy-status-controller",
            to("list", "validatingadmissionpolicies", group="admissionregistration.k8s.io"),
            30,
        ),
    ],
)
async def test_controllers_gain_permissions_with_a_release(
    store: Any, user: str, info: RequestInfo, since: int
) -> None:
    account = User(f"system:serviceaccount:kube-system:{user}")
    for minor in (since - 1, since):
        await ensure_bootstrap_policy(store, Identity(), release=Release(1, minor))
        assert (await Rbac(store, Identity()).authorize(account, info)).allowed is (minor >= since)


@pytest.mark.parametrize(("minor", "allowed"), [(35, True), (36, False)])
async def test_controllers_lose_permissions_with_a_release(store: Any, minor: int, allowed: bool) -> None:
    await ensure_bootstrap_policy(store, Identity(), release=Release(1, minor))
    authorizer = Rbac(store, Identity())
    expand = User("system:serviceaccount:kube-system:expand-controller")

    assert (await authorizer.authorize(expand, to("get", "secrets", "a", "s"))).allowed is allowed
    assert (await authorizer.authorize(expand, to("list", "persistentvolumes"))).allowed


@pytest.mark.parametrize(
    ("minor", "resource", "group"), [(35, "configmaps", ""), (36, "leases", "coordination.k8s.io")]
)
async def test_leader_election_of_the_control_plane_uses_leases_since_1_36(
    store: Any, minor: int, resource: str, group: str
) -> None:
    await ensure_bootstrap_policy(store, Identity(), release=Release(1, minor))
    authorizer = Rbac(store, Identity())
    account = User("system:serviceaccount:kube-system:kube-controller-manager")

    name = "kube-controller-manager"
    assert (await authorizer.authorize(account, to("update", resource, "kube-system", name, group=group))).allowed
    other = "leases" if resource == "configmaps" else "configmaps"
    other_group = "coordination.k8s.io" if other == "leases" else ""
    info = to("update", other, "kube-system", name, group=other_group)
    assert not (await authorizer.authorize(account, info)).allowed


@pytest.mark.parametrize(
    ("gate", "controller"),
    [
        ("DRADeviceTaints", "device-taint-eviction-controller"),
        ("SELinuxChangePolicy", "selinux-warning-controller"),
        ("VolumeAttributesClass", "volumeattributesclass-protection-controller"),
    ],
)
async def test_controllers_of_enabled_features_have_roles(store: Any, gate: str, controller: str) -> None:
    release = Release(1, 36)
    gates = build_gates({}, release)
    await ensure_bootstrap_policy(store, Identity(), gates, release)

    assert gates.enabled(gate)
    assert store.collection(RBAC.cluster_roles).get(f"system:controller:{controller}") is not None


@pytest.mark.parametrize("stored", [None, {}, {"clusterRoleSelectors": None}])
async def test_missing_selectors_of_aggregated_roles_are_restored(store: Any, stored: Any) -> None:
    await ensure_bootstrap_policy(store, Identity())
    role = store.read(RBAC.cluster_roles, "view")
    expected = role["aggregationRule"]
    store.put(RBAC.cluster_roles, {**role, "aggregationRule": stored})

    await ensure_bootstrap_policy(store, Identity())

    assert store.read(RBAC.cluster_roles, "view")["aggregationRule"] == expected


async def test_added_selectors_of_aggregated_roles_are_kept(store: Any) -> None:
    await ensure_bootstrap_policy(store, Identity())
    role, added = store.read(RBAC.cluster_roles, "view"), {"matchLabels": {"a": "b"}}
    expected = role["aggregationRule"]["clusterRoleSelectors"]
    store.put(RBAC.cluster_roles, {**role, "aggregationRule": {"clusterRoleSelectors": [added]}})

    await ensure_bootstrap_policy(store, Identity())

    assert store.read(RBAC.cluster_roles, "view")["aggregationRule"]["clusterRoleSelectors"] == [added, *expected]
