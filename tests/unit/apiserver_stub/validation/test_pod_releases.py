"""Tests for the validation of pods by the rules of releases after 1.29."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.pods import pod_options
from apiserver_stub.validation.pod import validate_new_pod
from apiserver_stub.validation.pod_exemptions import options_for_update
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.validation.pods import container, found, pod

SCRATCH = [{"name": "scratch", "emptyDir": {}}]
FILE = {"volumeName": "scratch", "path": "a.env", "key": "A"}
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
CERTIFICATE = {"signerName": "example.com/a", "keyType": "ED25519", "credentialBundlePath": "a.pem"}
SOURCE = "spec.volumes[0].projected.sources[0].podCertificate"


def options_at(release: str, gates: dict[str, bool] | None = None) -> PodOptions:
    at = Release.parse(release)
    options = pod_options(build_gates(gates or {}, at), Identity(), allow_privileged=True, release=at)
    return replace(options, is_pod=True)


def causes_of(release: str, spec: dict[str, Any], gates: dict[str, bool] | None = None) -> list[Cause]:
    return validate_new_pod(pod(serviceAccountName="default", **spec), options_at(release, gates))


def with_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [container(**fields)]}


def with_variable(**source: Any) -> dict[str, Any]:
    return {**with_container(env=[{"name": "A", "valueFrom": source}]), "volumes": SCRATCH}


def with_mount(**fields: Any) -> dict[str, Any]:
    mount = {"name": "scratch", "mountPath": "/scratch", **fields}
    return {**with_container(volumeMounts=[mount]), "volumes": SCRATCH}


@pytest.mark.parametrize(
    "spec",
    [
        with_variable(fileKeyRef=FILE),
        with_container(env=[{"name": "1 a%", "value": "b"}], envFrom=[{"prefix": "1", "secretRef": {"name": "s"}}]),
        with_container(restartPolicy="OnFailure", restartPolicyRules=[RULE]),
        with_container(restartPolicy="Never", restartPolicyRules=[{**RULE, "action": "RestartAllContainers"}]),
        {"initContainers": [container(name="i", restartPolicy="Never")]},
        {"hostnameOverride": "web.example.com"},
        {"volumes": [{"name": "v", "image": {"reference": "data:1"}}]},
        {"dnsConfig": {"searches": [".", "_tcp.example_a.com"]}},
        with_container(lifecycle={"preStop": {"sleep": {"seconds": 0}}}),
        with_mount(readOnly=True, recursiveReadOnly="Enabled"),
        {"securityContext": {"supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "Recursive"}},
        {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}},
        {"hostUsers": False, **with_container(securityContext={"procMount": "Unmasked"})},
    ],
)
def test_field_of_newest_release_is_accepted(spec: dict[str, Any]) -> None:
    assert causes_of("1.36", spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (with_variable(fileKeyRef=FILE), ["Invalid spec.containers[0].env[0].valueFrom"]),
        (with_container(env=[{"name": "1 a%", "value": "b"}]), ["Invalid spec.containers[0].env[0].name"]),
        (with_container(restartPolicy="OnFailure"), ["Forbidden spec.containers[0].restartPolicy"]),
        (
            {"initContainers": [container(name="i", restartPolicy="Never")]},
            ["NotSupported spec.initContainers[0].restartPolicy"],
        ),
        ({"dnsConfig": {"searches": ["."]}}, ["Invalid spec.dnsConfig.searches[0]"]),
        (
            with_container(lifecycle={"preStop": {"sleep": {"seconds": 0}}}),
            ["Invalid spec.containers[0].lifecycle.preStop.sleep"],
        ),
        ({"securityContext": {"appArmorProfile": {"type": "Other"}}}, []),
        ({"hostnameOverride": "A"}, []),
    ],
)
def test_oldest_release_has_its_own_rules(spec: dict[str, Any], expected: list[str]) -> None:
    assert found(causes_of("1.29", spec)) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (with_variable(), "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"),
        (with_variable(fileKeyRef={**FILE, "path": "../a"}), "must not contain '..'"),
        (with_variable(fileKeyRef={**FILE, "volumeName": "other"}), 'Not found: "other"'),
        (
            {**with_variable(fileKeyRef=FILE), "volumes": [{"name": "scratch", "hostPath": {"path": "/a"}}]},
            "referenced volume must be of type emptyDir",
        ),
        (with_container(restartPolicyRules=[RULE]), "must specify restartPolicy when restart rules are used"),
        (with_container(restartPolicy="Sometimes"), 'supported values: "Always", "Never", "OnFailure"'),
        (with_container(restartPolicy="Never", restartPolicyRules=[RULE] * 21), "must have at most 20 items"),
        (
            with_container(restartPolicy="Never", restartPolicyRules=[{**RULE, "action": "Stop"}]),
            'supported values: "Restart", "RestartAllContainers"',
        ),
        (with_container(restartPolicy="Never", restartPolicyRules=[{"action": "Restart"}]), "must be specified"),
        ({"hostnameOverride": "a", "hostNetwork": True}, "may not be specified when hostNetwork is true"),
        ({"hostnameOverride": "a" * 65}, "may not be more than 64 bytes"),
        (
            with_container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
            "must be non-negative and less than terminationGracePeriodSeconds (30)",
        ),
        (with_mount(recursiveReadOnly="Enabled"), "may only be specified when readOnly is true"),
        (with_mount(recursiveReadOnly="Yes"), 'supported values: "Disabled", "Enabled", "IfPossible"'),
        ({"securityContext": {"supplementalGroupsPolicy": "All"}}, 'supported values: "Merge", "Strict"'),
        ({"securityContext": {"seLinuxChangePolicy": "MountOption"}}, 'supported values: "Recursive"'),
        (
            with_container(securityContext={"appArmorProfile": {"type": "Localhost"}}),
            "must be set when AppArmor type is Localhost",
        ),
        (with_container(securityContext={"procMount": "Unmasked"}), "`hostUsers` must be false to use `Unmasked`"),
        ({"hostUsers": False, "hostPID": True}, "when `hostUsers` is false"),
    ],
)
def test_invalid_field_of_newest_release_is_rejected(spec: dict[str, Any], message: str) -> None:
    messages = [cause.message for cause in causes_of("1.36", spec)]

    assert any(message in text for text in messages), messages


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"signerName": ""}, [f"Required {SOURCE}.signerName"]),
        ({"keyType": "RSA"}, [f"NotSupported {SOURCE}.keyType"]),
        ({"maxExpirationSeconds": 60}, [f"Invalid {SOURCE}.maxExpirationSeconds"]),
        ({"credentialBundlePath": ""}, [f"Required {SOURCE}"]),
        ({"keyPath": "../a"}, [f"Invalid {SOURCE}.keyPath"]),
        ({"keyPath": "a.pem"}, ["Invalid spec.volumes[0].projected"]),
    ],
)
def test_pod_certificate_is_validated_where_enabled(change: dict[str, Any], expected: list[str]) -> None:
    sources = [{"podCertificate": {**CERTIFICATE, **change}}]
    spec = {"volumes": [{"name": "v", "projected": {"sources": sources}}]}

    assert found(causes_of("1.36", spec, {"PodCertificateRequest": True})) == expected


@pytest.mark.parametrize(
    ("os", "signal", "expected"),
    [
        ("linux", "SIGRTMIN+3", []),
        ("linux", "SIGFOO", ["NotSupported spec.containers[0].lifecycle.stopSignal"]),
        (None, "SIGINT", ["Forbidden spec.containers[0].lifecycle.stopSignal"]),
    ],
)
def test_stop_signal_depends_on_operating_system(os: str | None, signal: str, expected: list[str]) -> None:
    spec = with_container(lifecycle={"stopSignal": signal}) | ({"os": {"name": os}} if os else {})

    assert found(causes_of("1.36", spec, {"ContainerStopSignals": True})) == expected


def test_profile_that_differs_from_its_annotation_is_rejected() -> None:
    made = pod(
        metadata={"annotations": {"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}},
        serviceAccountName="default",
        securityContext={"appArmorProfile": {"type": "RuntimeDefault"}},
    )

    messages = [cause.message for cause in validate_new_pod(made, options_at("1.31"))]

    assert messages == ["Forbidden: apparmor type in annotation and field must match"]


def test_update_keeps_stored_field_of_disabled_feature() -> None:
    options = options_at("1.29")
    fields = with_container(restartPolicy="Never", restartPolicyRules=[RULE])
    stored = pod(serviceAccountName="default", **fields)

    assert found(validate_new_pod(stored, options)) == ["Forbidden spec.containers[0].restartPolicy"]
    assert validate_new_pod(stored, options_for_update(options, stored["metadata"], stored["spec"])) == []


@pytest.mark.parametrize(
    ("release", "field"), [("1.29", "spec.resourceClaims[0].source"), ("1.31", "spec.resourceClaims[0]")]
)
def test_resource_claim_without_reference_is_rejected(release: str, field: str) -> None:
    gates = {"DynamicResourceAllocation": True}

    assert found(causes_of(release, {"resourceClaims": [{"name": "gpu"}]}, gates)) == [f"Invalid {field}"]


@pytest.mark.parametrize(
    ("release", "gate", "value", "expected"),
    [
        ("1.34", True, "5", [("FieldValueNotSupported", "operator")]),
        ("1.36", False, "5", [("FieldValueNotSupported", "operator")]),
        ("1.36", True, "5", []),
        ("1.36", True, "-05", [("FieldValueInvalid", "value")]),
        ("1.36", True, "9223372036854775808", [("FieldValueInvalid", "value")]),
        ("1.36", True, "", [("FieldValueInvalid", "value")] * 2),
    ],
)
def test_tolerations_compare_numbers_behind_a_gate(
    release: str, gate: bool, value: str, expected: list[tuple[str, str]]
) -> None:
    toleration = {"key": "sla", "operator": "Gt", "value": value}

    causes = causes_of(release, {"tolerations": [toleration]}, {"TaintTolerationComparisonOperators": gate})

    assert [(item.reason, item.field.removeprefix("spec.tolerations[0].")) for item in causes] == expected


TOKEN = {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]}}]}
LABEL = {"key": "zone", "operator": "In", "values": ["a b"]}
AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [LABEL]}]}}
VALUES = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@pytest.mark.parametrize(
    ("spec", "first", "expected"),
    [
        (TOKEN, 32, "Invalid spec.volumes[0].projected.path"),
        ({"affinity": {"nodeAffinity": AFFINITY}}, 34, f"Invalid {VALUES}.matchExpressions[0].values[0]"),
        ({"dnsConfig": {"nameservers": ["010.0.0.1"]}}, 36, "Invalid spec.dnsConfig.nameservers[0]"),
        ({"dnsConfig": {"nameservers": ["::ffff:10.0.0.1"]}}, 36, "Invalid spec.dnsConfig.nameservers[0]"),
        ({"hostAliases": [{"ip": "010.0.0.1"}]}, 36, "Invalid spec.hostAliases[0].ip"),
        (
            with_container(securityContext={"procMount": "Unmasked"}),
            30,
            "Invalid spec.containers[0].securityContext.procMount",
        ),
    ],
)
def test_stricter_rules_apply_from_their_release(spec: dict[str, Any], first: int, expected: str) -> None:
    rejected = [minor for minor in range(29, 37) if expected in found(causes_of(f"1.{minor}", spec))]

    assert rejected == list(range(first, 37))


@pytest.mark.parametrize("spec", [TOKEN, {"affinity": {"nodeAffinity": AFFINITY}}])
def test_stored_pod_is_exempt_from_stricter_rules(spec: dict[str, Any]) -> None:
    stored = pod(serviceAccountName="default", **spec)
    options = options_for_update(options_at("1.36"), stored["metadata"], stored["spec"])

    assert validate_new_pod(stored, options) == []


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (("a", "b"), []),
        (("a b",), ["Invalid spec.containers[0].resources.claims[0].request"]),
        (("a", "a"), ["Duplicate spec.containers[0].resources.claims[1]"]),
        (("a", ""), ["Duplicate spec.containers[0].resources.claims[1]"]),
        (("", "a"), ["Duplicate spec.containers[0].resources.claims[1]"]),
    ],
)
def test_requests_of_a_claim_do_not_overlap(requests: tuple[str, ...], expected: list[str]) -> None:
    claims = [{"name": "gpu", **({"request": name} if name else {})} for name in requests]
    claim = {"name": "gpu", "resourceClaimName": "x"}
    spec = {"resourceClaims": [claim], **with_container(resources={"claims": claims})}

    assert found(causes_of("1.36", spec)) == expected


def test_windows_pods_reject_the_security_fields_of_linux() -> None:
    context = {"appArmorProfile": {"type": "Unconfined"}, "supplementalGroupsPolicy": "Strict"}
    context["seLinuxChangePolicy"] = "MountOption"
    fields = with_container(securityContext={"appArmorProfile": {"type": "Unconfined"}})

    rejected = found(causes_of("1.36", {"os": {"name": "windows"}, "securityContext": context, **fields}))

    assert {f"Forbidden spec.securityContext.{name}" for name in context} <= set(rejected)
    assert "Forbidden spec.containers[0].securityContext.appArmorProfile" in rejected


@pytest.mark.parametrize(
    ("release", "text"), [("1.33", "when `pod.Spec.HostUsers` is false"), ("1.34", "when `hostUsers` is false")]
)
def test_host_namespaces_of_a_user_namespace_are_reported_by_release(release: str, text: str) -> None:
    messages = [cause.message for cause in causes_of(release, {"hostUsers": False, "hostPID": True})]

    assert messages == [f"Forbidden: {text}"]


@pytest.mark.parametrize(("release", "expected"), [("1.30", ["Duplicate"]), ("1.31", [])])
def test_requests_of_one_claim_are_distinguished_by_release(release: str, expected: list[str]) -> None:
    claims = [{"name": "gpu", "request": name} for name in ("a", "b")]
    reference = {"resourceClaimName": "x"}
    claim = {"name": "gpu", **(reference if release == "1.31" else {"source": reference})}
    spec = {"resourceClaims": [claim], **with_container(resources={"claims": claims})}

    assert [each.partition(" ")[0] for each in found(causes_of(release, spec))] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bundle", []),
        ("example.com:signer:bundle", []),
        ("example.com:signer:-", ["Invalid"]),
        ("", ["Required", "Invalid"]),
    ],
)
def test_name_of_a_trust_bundle_starts_with_its_signer(name: str, expected: list[str]) -> None:
    sources = [{"clusterTrustBundle": {"name": name, "path": "ca.pem"}}]
    causes = causes_of(
        "1.36", {"volumes": [{"name": "v", "projected": {"sources": sources}}]}, {"ClusterTrustBundle": True}
    )

    field = "spec.volumes[0].projected.sources[0].clusterTrustBundle.name"
    assert found(causes) == [f"{reason} {field}" for reason in expected]
