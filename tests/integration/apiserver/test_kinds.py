"""Tests for volumes, signing requests, namespaces and other kinds: defaults, validation, tables."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .conftest import Api

MERGE = "application/merge-patch+json"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def cells(api: Api, path: str) -> dict[str, Any]:
    """Return the table cells of an object."""
    table = api.ok("GET", path, headers=TABLE)
    return dict(zip((column["name"] for column in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))


def test_claim_is_defaulted_and_immutable_except_for_expansion(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    growing = {"metadata": {"name": namespace}, "provisioner": "example.com/p", "allowVolumeExpansion": True}
    api.ok("POST", "/apis/storage.k8s.io/v1/storageclasses", growing)
    expected = {**CLAIM, "storageClassName": namespace}
    claim = api.ok("POST", path, {"metadata": {"name": "c"}, "spec": expected})
    assert claim["spec"]["volumeMode"] == "Filesystem"
    shown = cells(api, f"{path}/c")
    assert (shown["Status"], shown["Access Modes"], shown["VolumeMode"]) == ("Pending", "", "Filesystem")

    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    code, rejection = api.call("PATCH", f"{path}/c", larger, content_type=MERGE)
    assert code == 422
    assert "spec is immutable after creation" in rejection["message"]
    api.ok("PATCH", f"{path}/c", {"spec": {"volumeName": "v"}}, content_type=MERGE)
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    api.ok("PATCH", f"{path}/c/status", {"status": status}, content_type=MERGE)
    api.ok("PATCH", f"{path}/c", larger, content_type=MERGE)
    shown = cells(api, f"{path}/c")
    assert (shown["Status"], shown["Volume"], shown["Capacity"], shown["Access Modes"]) == ("Bound", "v", "1Gi", "RWO")
    code, rejection = api.call("PATCH", f"{path}/c", {"spec": expected}, content_type=MERGE)
    assert code == 422
    assert "field can not be less than previous value" in rejection["message"]


def test_claim_requires_storage_and_access_modes(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    code, rejection = api.call("POST", path, {"metadata": {"name": "c"}})
    assert code == 422
    assert [cause["field"] for cause in rejection["details"]["causes"]] == [
        "spec.accessModes",
        "spec.resources[storage]",
    ]
    spec = {**CLAIM, "accessModes": ["ReadWriteOncePod", "ReadWriteMany"]}
    code, rejection = api.call("POST", path, {"metadata": {"name": "c"}, "spec": spec})
    assert "may not use ReadWriteOncePod with other access modes" in rejection["message"]


def test_volume_source_is_immutable(api: Api, namespace: str) -> None:
    path, name = "/api/v1/persistentvolumes", f"v-{namespace}"
    volume = api.ok("POST", path, {"metadata": {"name": name}, "spec": VOLUME})
    spec = volume["spec"]
    assert (spec["persistentVolumeReclaimPolicy"], spec["volumeMode"]) == ("Retain", "Filesystem")
    assert volume["status"]["lastPhaseTransitionTime"]
    api.ok("PATCH", f"{path}/{name}", {"spec": {"claimRef": {"namespace": "n", "name": "c"}}}, content_type=MERGE)
    shown = cells(api, f"{path}/{name}")
    assert (shown["Capacity"], shown["Access Modes"], shown["Claim"], shown["Reason"]) == ("1Gi", "RWO", "n/c", "")

    code, rejection = api.call("PATCH", f"{path}/{name}", {"spec": {"hostPath": {"path": "/y"}}}, content_type=MERGE)
    assert code == 422
    assert "spec.persistentvolumesource is immutable after creation" in rejection["message"]
    code, rejection = api.call("POST", path, {"metadata": {"name": "w"}})
    assert "spec: Required value: must specify a volume type" in rejection["message"]


def test_csi_driver_and_attachment_have_defaults(api: Api, namespace: str) -> None:
    drivers = "/apis/storage.k8s.io/v1/csidrivers"
    driver = api.ok("POST", drivers, {"metadata": {"name": namespace}, "spec": {}})["spec"]
    assert (driver["attachRequired"], driver["volumeLifecycleModes"]) == (True, ["Persistent"])
    shown = cells(api, f"{drivers}/{namespace}")
    assert (shown["TokenRequests"], shown["Modes"], shown["RequiresRepublish"]) == ("<unset>", "Persistent", False)

    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    attachments = "/apis/storage.k8s.io/v1/volumeattachments"
    made = api.ok("POST", attachments, {"metadata": {"name": namespace}, "spec": spec, "status": {"attached": True}})
    assert made["status"] == {"attached": False}


def test_endpoint_ports_default_to_tcp(api: Api, namespace: str) -> None:
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]
    path = f"/api/v1/namespaces/{namespace}/endpoints"
    made = api.ok("POST", path, {"metadata": {"name": "e"}, "subsets": subsets})
    assert made["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]


def test_service_name_starts_with_a_letter(api: Api, namespace: str) -> None:
    service = {"metadata": {"name": "1st"}, "spec": {"ports": [{"port": 80}]}}
    code, rejection = api.call("POST", f"/api/v1/namespaces/{namespace}/services", service)
    assert code == 422
    assert "a DNS-1035 label must consist of" in rejection["message"]


def test_generation_changes_only_with_the_spec(api: Api, namespace: str) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    assert api.ok("POST", path, {"metadata": {"name": "i"}, "spec": spec})["metadata"]["generation"] == 1
    labeled = api.ok("PATCH", f"{path}/i", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labeled["metadata"]["generation"] == 1
    classed = api.ok("PATCH", f"{path}/i", {"spec": {"ingressClassName": "c"}}, content_type=MERGE)
    assert classed["metadata"]["generation"] == 2

    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    made = api.ok("POST", budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1}})
    assert made["metadata"]["generation"] == 1
    assert cells(api, f"{budgets}/b")["Min Available"] == "1"


def signing_request(**changes: Any) -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "joe")])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    return {"request": text, "signerName": "example.com/s", "usages": ["client auth"], **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"request": "AAAA"}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"usages": ["frying"]}, 'spec.usages[0]: Unsupported value: "frying"'),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"expirationSeconds": 10}, "may not specify a duration less than 600 seconds (10 minutes)"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API version"),
        ({"signerName": "example.com/Bad!"}, 'validating label "Bad!"'),
        ({"signerName": "local/s"}, "should be a domain with at least two segments separated by dots"),
    ],
)
def test_invalid_signing_request_is_rejected(api: Api, changes: dict[str, Any], message: str) -> None:
    code, rejection = api.call("POST", REQUESTS, {"metadata": {"name": "no"}, "spec": signing_request(**changes)})
    assert code == 422
    assert message in rejection["message"]


def test_approval_has_a_time_and_is_immutable(api: Api, namespace: str) -> None:
    path = f"{REQUESTS}/{namespace}"
    made = api.ok("POST", REQUESTS, {"metadata": {"name": namespace}, "spec": signing_request()})
    approved = {"type": "Approved", "status": "True", "reason": "r"}

    def decide(*conditions: dict[str, str], part: str = "approval") -> tuple[int, Any]:
        return api.call(
            "PUT", f"{path}/{part}", {**made, "status": {"conditions": conditions}, "metadata": {"name": namespace}}
        )

    assert "Duplicate value" in decide(approved, approved)[1]["message"]
    assert 'supported values: "True"' in decide({**approved, "status": "False"})[1]["message"]
    assert "mutually exclusive" in decide(approved, {**approved, "type": "Denied"})[1]["message"]
    assert 'may not add a condition of type "Approved"' in decide(approved, part="status")[1]["message"]
    code, kept = decide(approved)
    assert code == 200
    assert kept["status"]["conditions"][0].keys() >= {"lastUpdateTime", "lastTransitionTime"}
    assert 'may not remove a condition of type "Approved"' in decide()[1]["message"]

    bad = {"status": {"certificate": "AAAA"}}
    code, rejection = api.call("PATCH", f"{path}/status", bad, content_type=MERGE)
    assert code == 422
    assert "must contain at least one CERTIFICATE PEM block" in rejection["message"]
    failed = {"type": "Failed", "status": "True", "reason": "x"}
    assert decide(approved, failed, part="status")[0] == 200
    assert cells(api, path)["Condition"] == "Approved,Failed"


def test_namespace_is_active_until_it_is_deleted(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    code, rejection = api.call("PATCH", f"{path}/status", {"status": {"phase": "Terminating"}}, content_type=MERGE)
    assert code == 422
    assert "may only be 'Active' if `deletionTimestamp` is empty" in rejection["message"]
    code, rejection = api.call(
        "PUT", f"{path}/finalize", {"metadata": {"name": namespace}, "spec": {"finalizers": ["x"]}}
    )
    assert code == 422
    assert rejection["details"]["causes"][0]["field"] == "spec.finalizers[0]"


def test_watch_of_tables_sends_columns_once(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in "ab":
        api.ok("POST", path, {"metadata": {"name": name}})
    code, _, data = api.raw("GET", f"{path}?watch=true&timeoutSeconds=1", headers=TABLE)
    assert code == 200
    frames = [line for line in data.splitlines() if line]
    reported = [b'"columnDefinitions":null' not in frame for frame in frames]
    assert reported == [True, *[False] * (len(frames) - 1)]
    assert len(frames) >= 2


def test_orphan_dependents_is_accepted_as_query(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, {"metadata": {"name": "o"}})
    response = api.ok("DELETE", f"{path}/o?orphanDependents=true&dryRun=All")
    assert response["metadata"]["finalizers"] == ["orphan"]


def test_token_request_is_for_the_account_of_the_path(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/a/token"
    api.ok("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "a"}})
    code, rejection = api.call("POST", path, {"metadata": {"name": "b"}})
    assert code == 422
    assert "must match the service account name if specified" in rejection["message"]
    assert api.call("POST", path, {"metadata": {"namespace": "elsewhere"}})[0] == 400
    assert api.ok("POST", path, {"metadata": {"name": "a", "namespace": namespace}})["status"]["token"]


def test_component_statuses_show_the_health_of_the_components(api: Api) -> None:
    path = "/api/v1/componentstatuses"
    names = [item["metadata"]["name"] for item in api.ok("GET", path)["items"]]
    assert names == ["controller-manager", "scheduler", "etcd-0"]
    assert api.ok("GET", f"{path}?fieldSelector=metadata.name%3Dscheduler")["items"][0]["conditions"] == [
        {"type": "Healthy", "status": "True", "message": "ok"}
    ]
    shown = cells(api, f"{path}/etcd-0")
    assert shown == {"Name": "etcd-0", "Status": "Healthy", "Message": "ok", "Error": ""}
    code, rejection = api.call("GET", f"{path}/x")
    assert (code, rejection["message"]) == (404, 'componentstatuses "x" not found')
