"""Tests for fields of feature gates: disabled fields are dropped unless already stored."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds import admission, autoscaling, coordination, deployments, disruption, pods
from apiserver_stub.kinds.disabled_fields import drop_from_node, drop_from_status
from apiserver_stub.kinds.registry import Strategy
from apiserver_stub.options import parse
from nodeagent.base.release import Release


def strategy(kind: str, gate: str, on: bool) -> Strategy:
    """Return the strategy of *kind* on a server with one gate set."""
    options = parse([f"--feature-gates={gate}={str(on).lower()}"])
    return next(
        item.strategy
        for family in (pods, admission, disruption)
        for item in family.resources(options)
        if item.kind == kind
    )


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


GATED = pod(schedulingGates=[{"name": "later"}])
SIDECAR = pod(initContainers=[{"name": "s", "image": "i", "restartPolicy": "Always"}])
BUDGET = {"metadata": {"name": "b"}, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
HOOKS = {
    "metadata": {"name": "h"},
    "webhooks": [{"name": "a", "matchConditions": [{"name": "c", "expression": "true"}]}],
}


def contained(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "i", **fields}])


def spread(**fields: Any) -> dict[str, Any]:
    return pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", **fields}])


def projected(**source: Any) -> dict[str, Any]:
    return pod(volumes=[{"name": "v", "projected": {"sources": [source]}}])


def affine(*, weighted: bool = False, **fields: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", **fields}
    if weighted:
        preferred = [{"weight": 1, "podAffinityTerm": term}]
        return pod(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    return pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


SLEEP = {"sleep": {"seconds": 1}}
POD_FIELDS = [
    ("ProcMountType", contained(securityContext={"procMount": "Unmasked"}), "Unmasked"),
    (
        "ProcMountType",
        pod(initContainers=[{"name": "s", "image": "i", "securityContext": {"procMount": "Unmasked"}}]),
        "Unmasked",
    ),
    ("PodLifecycleSleepAction", contained(lifecycle={"preStop": SLEEP}), "sleep"),
    ("PodLifecycleSleepAction", contained(lifecycle={"postStart": SLEEP}), "sleep"),
    ("UserNamespacesSupport", pod(hostUsers=False), "hostUsers"),
    ("InPlacePodVerticalScaling", contained(resizePolicy=[{"resourceName": "cpu"}]), "resizePolicy"),
    ("DynamicResourceAllocation", pod(resourceClaims=[{"name": "gpu"}]), "gpu"),
    (
        "DynamicResourceAllocation",
        pod(
            resourceClaims=[{"name": "x"}],
            containers=[{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        ),
        "gpu",
    ),
    ("ClusterTrustBundleProjection", projected(clusterTrustBundle={"path": "ca.crt"}), "clusterTrustBundle"),
    ("MatchLabelKeysInPodAffinity", affine(matchLabelKeys=["rev"]), "matchLabelKeys"),
    ("MatchLabelKeysInPodAffinity", affine(weighted=True, mismatchLabelKeys=["rev"]), "mismatchLabelKeys"),
    ("MatchLabelKeysInPodTopologySpread", spread(matchLabelKeys=["rev"]), "matchLabelKeys"),
    ("MinDomainsInPodTopologySpread", spread(minDomains=2), "minDomains"),
    ("NodeInclusionPolicyInPodTopologySpread", spread(nodeTaintsPolicy="Honor"), "nodeTaintsPolicy"),
    ("NodeInclusionPolicyInPodTopologySpread", spread(nodeAffinityPolicy="Ignore"), "nodeAffinityPolicy"),
    (
        "AppArmor",
        pod() | {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}},
        "apparmor",
    ),
]
STATUS_FIELDS = [
    ("InPlacePodVerticalScaling", {"resize": "Proposed"}, contained(resizePolicy=[{"resourceName": "cpu"}])),
    *(
        (
            "InPlacePodVerticalScaling",
            {f"{kind}Statuses": [{"name": "c", field: {"cpu": "1"}}]},
            contained(resizePolicy=[{"resourceName": "cpu"}]),
        )
        for kind in ("container", "initContainer", "ephemeralContainer")
        for field in ("allocatedResources", "resources")
    ),
    ("DynamicResourceAllocation", {"resourceClaimStatuses": [{"name": "x"}]}, pod(resourceClaims=[{"name": "x"}])),
]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(
    ("kind", "gate", "obj", "field"),
    [
        pytest.param(
            "Pod",
            "PodSchedulingReadiness",
            GATED,
            "schedulingGates",
            marks=pytest.mark.row("gate.PodSchedulingReadiness"),
        ),
        pytest.param("Pod", "SidecarContainers", SIDECAR, "Always", marks=pytest.mark.row("gate.SidecarContainers")),
        pytest.param(
            "PodDisruptionBudget",
            "PDBUnhealthyPodEvictionPolicy",
            BUDGET,
            "AlwaysAllow",
            marks=pytest.mark.row("gate.PDBUnhealthyPodEvictionPolicy"),
        ),
        *(
            pytest.param(
                f"{word}WebhookConfiguration",
                "AdmissionWebhookMatchConditions",
                HOOKS,
                "matchConditions",
                marks=pytest.mark.row("gate.AdmissionWebhookMatchConditions"),
            )
            for word in ("Mutating", "Validating")
        ),
        *(
            pytest.param("Pod", gate, obj, field, marks=pytest.mark.row(f"gate.{gate}"))
            for gate, obj, field in POD_FIELDS
        ),
    ],
)
def test_field_is_accepted_while_its_gate_is_enabled(
    kind: str, gate: str, obj: dict[str, Any], field: str, on: bool
) -> None:
    rules = strategy(kind, gate, on)
    new, changed, kept = copy.deepcopy(obj), copy.deepcopy(obj), copy.deepcopy(obj)

    rules.prepare_create(new)
    rules.prepare_update(changed, copy.deepcopy(new), "")
    rules.prepare_update(kept, copy.deepcopy(obj), "")

    assert [field in str(found) for found in (new, changed, kept)] == [on, on, True]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(
    ("gate", "status", "user"),
    [pytest.param(*case, marks=pytest.mark.row(f"gate.{case[0]}")) for case in STATUS_FIELDS],
)
def test_disabled_status_field_is_dropped_by_the_next_update_of_the_pod(
    gate: str, status: dict[str, Any], user: dict[str, Any], on: bool
) -> None:
    rules = strategy("Pod", gate, on)
    stored, used = pod() | {"status": copy.deepcopy(status)}, copy.deepcopy(user) | {"status": copy.deepcopy(status)}
    changed, kept, reported = copy.deepcopy(stored), copy.deepcopy(used), copy.deepcopy(stored)

    rules.prepare_update(changed, stored, "")
    rules.prepare_update(kept, used, "")
    rules.prepare_update(reported, pod(), "status")

    assert [holds(found["status"], status) for found in (changed, kept, reported)] == [on, True, True]
    assert holds(stored["status"], status)


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.row("gate.PodHostIPs")
def test_variables_may_refer_to_host_ips_while_the_gate_is_enabled(on: bool) -> None:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.hostIPs"}}
    new = contained(env=[{"name": "A", "valueFrom": source}])

    causes = strategy("Pod", "PodHostIPs", on).validate(new)

    field = "spec.containers[0].env[0].valueFrom.fieldRef"
    assert any((cause.reason, cause.field) == ("FieldValueForbidden", field) for cause in causes) is not on


def holds(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(found.get(name) == value for name, value in expected.items())


def test_disabled_proc_mount_becomes_the_default() -> None:
    new = contained(securityContext={"procMount": "Unmasked"})

    strategy("Pod", "ProcMountType", False).prepare_create(new)

    assert new["spec"]["containers"][0]["securityContext"] == {"procMount": "Default"}


def test_pod_without_disabled_fields_is_unchanged() -> None:
    new = contained(lifecycle={"preStop": {"exec": {"command": ["true"]}}}, securityContext={"privileged": True})
    before = copy.deepcopy(new)

    strategy("Pod", "AppArmor", False).prepare_create(new)

    assert new["spec"] == before["spec"]


def at_release(kind: str, release: str, gates: str = "") -> Strategy:
    options = parse([f"--compatibility-version={release}", *([f"--feature-gates={gates}"] if gates else [])])
    return next(
        item.strategy
        for family in (autoscaling, coordination, deployments)
        for item in family.resources(options)
        if item.kind == kind
    )


LEASE = {"metadata": {"name": "l"}, "spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "a"}}
SCALER = {"metadata": {"name": "h"}, "spec": {"behavior": {"scaleUp": {"tolerance": "10m"}, "scaleDown": {}}}}


@pytest.mark.parametrize(
    ("kind", "obj", "gate", "dropped"),
    [
        ("Lease", LEASE, "CoordinatedLeaderElection", {"spec": {}}),
        (
            "HorizontalPodAutoscaler",
            SCALER,
            "HPAConfigurableTolerance",
            {"spec": {"behavior": {"scaleUp": {}, "scaleDown": {}}}},
        ),
    ],
)
def test_fields_of_later_releases_follow_their_gates(
    kind: str, obj: dict[str, Any], gate: str, dropped: dict[str, Any]
) -> None:
    for on, expected in ((True, obj["spec"]), (False, dropped["spec"])):
        strategy = at_release(kind, "1.36", f"{gate}={str(on).lower()}")
        created, updated = copy.deepcopy(obj), copy.deepcopy(obj)

        strategy.prepare_create(created)
        strategy.prepare_update(updated, {**obj, "spec": {}}, "")

        assert (created["spec"], updated["spec"]) == (expected, expected)
        strategy.prepare_update(updated := copy.deepcopy(obj), obj, "")
        assert updated["spec"] == obj["spec"]


@pytest.mark.parametrize(("kind", "release", "kept"), [("Deployment", "1.34", False), ("ReplicaSet", "1.35", True)])
def test_terminating_replicas_follow_their_gate(kind: str, release: str, kept: bool) -> None:
    old = {"metadata": {}, "spec": {}, "status": {}}
    new = {**copy.deepcopy(old), "status": {"terminatingReplicas": 0}}

    at_release(kind, release).prepare_update(new, old, "status")

    assert ("terminatingReplicas" in new["status"]) is kept


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        ({"strategy": "OldestEmulationVersion", "preferredHolder": "a"}, []),
        ({"strategy": "example.com/own"}, []),
        ({"strategy": "Newest"}, ['Unsupported value: "Newest": supported values: "OldestEmulationVersion"']),
        ({"preferredHolder": "a"}, ["Forbidden: may only be specified if `strategy` is defined"]),
    ],
)
def test_strategies_of_leases_are_validated(spec: dict[str, Any], messages: list[str]) -> None:
    causes = at_release("Lease", "1.36").validate({"metadata": {}, "spec": spec})

    assert [cause.message for cause in causes] == messages


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_negative_terminating_replicas_are_rejected(kind: str) -> None:
    old = {"metadata": {}, "spec": {}, "status": {"replicas": 1}}
    new = {**old, "status": {"replicas": 1, "terminatingReplicas": -1}}

    causes = at_release(kind, "1.36").validate_update(new, old, "status")

    assert [cause.field for cause in causes] == ["status.terminatingReplicas"]


@pytest.mark.parametrize("stored", [True, False])
def test_host_ips_are_dropped_unless_they_are_stored(stored: bool) -> None:
    new, old = ({"spec": {}, "status": {"hostIPs": [{"ip": "192.0.2.1"}]}} for _ in range(2))
    if not stored:
        old["status"] = {}

    drop_from_status(build_gates({"PodHostIPs": False}), new, old)

    assert ("hostIPs" in new["status"]) is stored


@pytest.mark.parametrize("policy", [None, "VPA"])
def test_resources_in_the_status_of_containers_need_a_gate_or_a_policy(policy: str | None) -> None:
    container = {"name": "c", **({"resizePolicy": [policy]} if policy else {})}
    old = {"spec": {"containers": [container]}, "status": {}}
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        item = {"name": "c", "ready": True, "resources": {}, "allocatedResources": {}}
        new = {"spec": {}, "status": {kind: [item, {"name": "d"}], "resize": "Proposed"}}
        drop_from_status(build_gates({"InPlacePodVerticalScaling": False}), new, old)
        kept = [item if policy else {"name": "c", "ready": True}, {"name": "d"}]
        assert (new["status"][kind], "resize" in new["status"]) == (kept, bool(policy)), kind


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("name", ["resources", "allocatedResources"])
def test_resources_of_pods_need_a_gate_unless_they_are_stored(name: str, stored: bool) -> None:
    release = Release(1, 35)
    new: dict[str, Any] = {"spec": {}, "status": {name: {"requests": {"cpu": "1"}}}}
    old = {"spec": {}, "status": copy.deepcopy(new["status"]) if stored else {}}

    drop_from_status(build_gates({"InPlacePodLevelResourcesVerticalScaling": False}, release), new, old)

    assert (name in new["status"]) is stored


@pytest.mark.parametrize(
    ("enabled", "stored", "kept"),
    [(False, [], False), (False, [{"name": ""}], True), (True, [], True), (True, [{"name": ""}], True)],
)
def test_runtime_handlers_of_nodes_are_dropped_unless_stored(enabled: bool, stored: list[Any], kept: bool) -> None:
    gates = build_gates({"RecursiveReadOnlyMounts": enabled, "UserNamespacesSupport": False}, Release(1, 30))
    node = {"status": {"runtimeHandlers": [{"name": "runc"}]}}

    drop_from_node(gates, node, {"status": {"runtimeHandlers": stored}} if stored else None)

    assert ("runtimeHandlers" in node["status"]) is kept
