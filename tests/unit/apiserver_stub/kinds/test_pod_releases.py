"""Tests for the strategy of pods at releases after 1.29."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.disabled_fields import drop_from_pod
from apiserver_stub.kinds.pods import PodStrategy
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.validation.pods import pod

ACTION = "DoNotSchedule"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/web"


def strategy_at(release: str, gates: dict[str, bool] | None = None) -> PodStrategy:
    at = Release.parse(release)
    return PodStrategy(build_gates(gates or {}, at), Identity(), release=at)


@pytest.mark.parametrize(
    ("release", "annotations", "profile", "expected"),
    [
        ("1.29", {APPARMOR: "unconfined"}, None, ({APPARMOR: "unconfined"}, None)),
        ("1.31", {APPARMOR: "localhost/a"}, None, ({APPARMOR: "localhost/a"}, "a")),
        ("1.36", {APPARMOR: "localhost/a"}, None, ({APPARMOR: "localhost/a"}, "a")),
        ("1.31", {}, "b", ({APPARMOR: "localhost/b"}, "b")),
        ("1.36", {}, "b", ({}, "b")),
        ("1.36", {APPARMOR: "localhost/"}, None, ({APPARMOR: "localhost/"}, None)),
    ],
)
def test_apparmor_annotation_is_copied_to_field_at_creation(
    release: str, annotations: dict[str, str], profile: str | None, expected: tuple[dict[str, str], str | None]
) -> None:
    made = pod(metadata={"annotations": dict(annotations)})
    container = made["spec"]["containers"][0]
    if profile is not None:
        container["securityContext"] = {"appArmorProfile": {"type": "Localhost", "localhostProfile": profile}}

    strategy_at(release).prepare_create(made)

    copied = container.get("securityContext", {}).get("appArmorProfile") or {}
    assert (made["metadata"].get("annotations", {}), copied.get("localhostProfile")) == expected


@pytest.mark.parametrize(
    ("release", "annotation", "profiles", "warned"),
    [
        ("1.29", "unconfined", (None, None), False),
        ("1.30", "unconfined", (None, None), True),
        ("1.36", "other", (None, None), True),
        ("1.36", "unconfined", ({"type": "Unconfined"}, None), False),
        ("1.36", "runtime/default", ({"type": "Unconfined"}, None), True),
        ("1.36", "unconfined", (None, {"type": "Unconfined"}), False),
    ],
)
def test_apparmor_annotation_without_field_is_deprecated_since_1_30(
    release: str, annotation: str, profiles: tuple[dict[str, str] | None, dict[str, str] | None], warned: bool
) -> None:
    made = pod(metadata={"annotations": {APPARMOR: annotation}})
    for owner, profile in zip((made["spec"], made["spec"]["containers"][0]), profiles, strict=True):
        if profile is not None:
            owner["securityContext"] = {"appArmorProfile": profile}

    warnings = strategy_at(release).warnings_as_sent(made)

    text = f'metadata.annotations[{APPARMOR}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert warnings == ([text] if warned else [])


@pytest.mark.parametrize(("release", "counted"), [("1.29", ()), ("1.32", ()), ("1.33", ("spec",)), ("1.36", ("spec",))])
def test_generation_of_pods_is_counted_since_1_33(release: str, counted: tuple[str, ...]) -> None:
    assert strategy_at(release).counted == counted


def test_status_update_keeps_observed_generations() -> None:
    old = pod()
    old["status"] = {
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}],
    }
    new = copy.deepcopy(old)
    others = {"type": "Other", "status": "True", "observedGeneration": 1}
    new["status"] = {"conditions": [{"type": "Ready", "status": "True"}, others]}

    strategy_at("1.36").prepare_update(new, old, "status")

    assert new["status"]["observedGeneration"] == 2
    assert [item.get("observedGeneration") for item in new["status"]["conditions"]] == [2, 1]
    assert old["status"]["conditions"][0]["status"] == "False"


@pytest.mark.parametrize(
    ("release", "sent", "stored", "valid"),
    [
        ("1.31", {}, None, True),
        ("1.32", {"phase": "Running"}, "Burstable", True),
        ("1.32", None, "Burstable", True),
        ("1.36", {"qosClass": "Burstable"}, "Burstable", True),
        ("1.36", {"qosClass": "Guaranteed"}, "Guaranteed", False),
    ],
)
def test_status_update_keeps_qos_class_since_1_32(
    release: str, sent: dict[str, str] | None, stored: str | None, valid: bool
) -> None:
    old = pod()
    old["status"] = {"qosClass": "Burstable"}
    new = copy.deepcopy(old)
    new["status"] = sent and dict(sent)
    strategy = strategy_at(release)

    strategy.prepare_update(new, old, "status")

    assert new["status"].get("qosClass") == stored
    assert new["status"].get("phase") == (sent or {}).get("phase")
    assert (strategy.validate_update(new, old, "status") == []) is valid


@pytest.mark.parametrize(("release", "allowed"), [("1.31", True), ("1.32", False), ("1.34", False)])
def test_plain_update_resizes_only_before_1_32(release: str, allowed: bool) -> None:
    containers = [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]
    old = pod(serviceAccountName="default", containers=containers)
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"

    causes = strategy_at(release, {"InPlacePodVerticalScaling": True}).validate_update(new, old, "")

    assert (causes == []) is allowed


def made(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def contained(**fields: Any) -> dict[str, Any]:
    return made(containers=[{"name": "c", "image": "i", **fields}])


CERTIFICATE = made(volumes=[{"name": "v", "projected": {"sources": [{"podCertificate": {"keyPath": "a"}}]}}])
NEWER_FIELDS = [
    ("AppArmorFields", "1.30", made(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "appArmorProfile"),
    ("RecursiveReadOnlyMounts", "1.31", contained(volumeMounts=[{"recursiveReadOnly": "Enabled"}]), "recursive"),
    ("SupplementalGroupsPolicy", "1.33", made(securityContext={"supplementalGroupsPolicy": "Strict"}), "Strict"),
    ("SELinuxChangePolicy", "1.33", made(securityContext={"seLinuxChangePolicy": "Recursive"}), "Recursive"),
    ("ImageVolume", "1.35", made(volumes=[{"name": "v", "image": {"reference": "a"}}]), "reference"),
    ("PodLevelResources", "1.34", made(resources={"limits": {"cpu": "1"}}), "limits"),
    ("HostnameOverride", "1.35", made(hostnameOverride="a"), "hostnameOverride"),
    ("ContainerRestartRules", "1.35", contained(restartPolicy="Never", restartPolicyRules=[{}]), "restartPolicy"),
    ("EnvFiles", "1.35", contained(env=[{"valueFrom": {"fileKeyRef": {"key": "a"}}}]), "fileKeyRef"),
    ("ContainerStopSignals", "1.36", contained(lifecycle={"stopSignal": "SIGINT"}), "stopSignal"),
    ("GenericWorkload", "1.36", made(schedulingGroup={"podGroupName": "a"}), "podGroupName"),
    ("PodCertificateRequest", "1.36", CERTIFICATE, "podCertificate"),
]


@pytest.mark.parametrize(("gate", "release", "obj", "field"), NEWER_FIELDS)
def test_newer_field_is_dropped_only_if_its_gate_exists_and_is_off(
    gate: str, release: str, obj: dict[str, Any], field: str
) -> None:
    def stored(at: str, *, on: bool, old: dict[str, Any] | None = None) -> str:
        new = copy.deepcopy(obj)
        drop_from_pod(build_gates({gate: on}, Release.parse(at)), "container.apparmor", new, old)
        return str(new)

    assert field in stored("1.29", on=False)
    assert field in stored(release, on=True)
    assert field not in stored(release, on=False)
    assert field in stored(release, on=False, old=obj)


@pytest.mark.parametrize(("release", "merged"), [("1.33", False), ("1.34", True)])
def test_label_keys_of_spread_constraints_are_merged_since_1_34(release: str, merged: bool) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app"]}
    spec = {"serviceAccountName": "default", "topologySpreadConstraints": [{**spread, "whenUnsatisfiable": ACTION}]}
    made = pod(metadata={"labels": {"app": "web"}}, **spec)
    strategy = strategy_at(release)

    strategy.prepare_create(made)

    selector = made["spec"]["topologySpreadConstraints"][0]["labelSelector"]
    expressions = [{"key": "app", "operator": "In", "values": ["web"]}] if merged else None
    assert selector.get("matchExpressions") == expressions
    assert strategy.validate(made) == []


def test_lifecycle_without_stop_signal_is_dropped_when_empty() -> None:
    made = pod(containers=[{"name": "web", "image": "web:1", "lifecycle": {"stopSignal": "SIGINT"}}])

    strategy_at("1.36").prepare_create(made)

    assert "lifecycle" not in made["spec"]["containers"][0]


@pytest.mark.parametrize(("release", "expected"), [("1.32", "BestEffort"), ("1.34", "Burstable")])
def test_dropped_pod_level_resources_do_not_determine_qos_class(release: str, expected: str) -> None:
    made = pod(resources={"requests": {"cpu": "1"}})

    strategy_at(release).prepare_create(made)

    assert made["status"]["qosClass"] == expected


@pytest.mark.parametrize(("release", "dated"), [("1.29", False), ("1.32", True)])
def test_condition_of_gated_pod_has_a_transition_time_since_1_32(release: str, dated: bool) -> None:
    made = pod(schedulingGates=[{"name": "a"}])

    strategy_at(release).prepare_create(made)

    assert (made["status"]["conditions"][0]["lastTransitionTime"] is not None) is dated


def test_status_of_disabled_features_is_dropped_unless_it_is_stored() -> None:
    gates = {"PodObservedGenerationTracking": False, "ResourceHealthStatus": False, "SupplementalGroupsPolicy": False}
    strategy = strategy_at("1.34", gates)
    container = {"name": "web", "allocatedResourcesStatus": [{"name": "a"}], "user": {"linux": {"uid": 1}}}
    status = {
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
        "containerStatuses": [container, {**container, "name": "log"}],
    }
    old = pod()
    new = copy.deepcopy(old) | {"status": copy.deepcopy(status)}
    condition = {"type": "Ready", "status": "True"}

    strategy.prepare_update(new, old, "status")

    assert (new["status"].get("observedGeneration"), new["status"]["conditions"]) == (None, [condition])
    assert new["status"]["containerStatuses"] == [{"name": "web"}, {"name": "log"}]
    for kept in ({"observedGeneration": 1}, {"conditions": [{**condition, "observedGeneration": 1}]}):
        old["status"] = {**kept, "containerStatuses": [container]}
        new = copy.deepcopy(old) | {"status": copy.deepcopy(status)}
        strategy.prepare_update(new, old, "status")
        assert {name: new["status"][name] for name in status} == status
