"""Tests for writes: field ownership, restrictions of patches, and canonical values."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from .conftest import Api

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_server_and_admission_changes_have_no_owner(api: Api, namespace: str) -> None:
    spec = {"containers": [{"name": "c", "image": "busybox:1"}], "schedulerName": "none"}
    pod = api.ok("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "p"}, "spec": spec})
    owned = pod["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert pod["spec"]["tolerations"]
    assert "f:tolerations" not in owned
    assert "f:restartPolicy" in owned  # a default is owned by the client

    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    service = api.ok("POST", f"/api/v1/namespaces/{namespace}/services", service)
    assert service["spec"]["clusterIP"]
    assert "f:clusterIP" not in service["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]


def test_object_created_without_fields_has_no_managers(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    empty = api.ok("POST", path, {"metadata": {"name": "e"}})
    assert "managedFields" not in empty["metadata"]

    changed = api.ok("PATCH", f"{path}/e", {"data": {"k": "1"}}, content_type=MERGE)
    assert "managedFields" not in changed["metadata"]  # fields are not tracked since creation

    applied = api.ok("PATCH", f"{path}/e?fieldManager=m", config_map("e", j="2"), content_type=APPLY)
    managers = [entry["manager"] for entry in applied["metadata"]["managedFields"]]
    assert managers == ["m", "before-first-apply"]


def test_conflict_error_contains_the_manager_without_time(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", f"{path}?fieldManager=one", config_map("c", k="1"))

    code, rejection = api.call("PATCH", f"{path}/c?fieldManager=two", config_map("c", k="2"), content_type=APPLY)
    assert code == 409
    assert rejection["message"] == 'Apply failed with 1 conflict: conflict with "one" using v1: .data.k'


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"kind": "Other"}, 422, 'no kind "Other" is registered for version "v1"'),
        ({"apiVersion": "v2"}, 422, 'no kind "ConfigMap" is registered for version "v2"'),
        ({"metadata": {"uid": "x"}}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
        ({"metadata": None}, 400, "the name of the object (p based on URL) was undeterminable"),
        (
            {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
            422,
            "metadata.deletionTimestamp: Invalid value: 2",
        ),
        ({"metadata": {"namespace": "x"}}, 400, "the namespace of the provided object does not match"),
        ([], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_invalid_merge_patch_is_rejected(api: Api, namespace: str, patch: Any, code: int, message: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.call("POST", path, config_map("p", k="1"))

    rejection = api.call("PATCH", f"{path}/p", patch, content_type=MERGE)
    assert rejection[0] == code
    assert message in rejection[1]["message"]


def test_patch_cannot_change_kind_or_generation(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("p", k="1"))

    assert api.ok("PATCH", f"{path}/p", {"kind": "Other"}, content_type=STRATEGIC)["kind"] == "ConfigMap"
    patched = api.ok("PATCH", f"{path}/p", {"metadata": {"generation": 7}}, content_type=MERGE)
    assert "generation" not in patched["metadata"]


def test_strict_patch_error_contains_the_patched_object(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("p", k="1"))

    code, rejection = api.call("PATCH", f"{path}/p?fieldValidation=Strict", {"foo": 1}, content_type=MERGE)
    assert code == 422
    assert rejection["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert rejection["message"].endswith('": strict decoding error: unknown field "foo"')
    assert '\\"data\\":{\\"k\\":\\"1\\"}' in rejection["message"]


def test_terminating_object_rejects_new_finalizers(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    waiting = config_map("f")
    waiting["metadata"]["finalizers"] = ["example.com/one"]
    api.ok("POST", path, waiting)
    api.ok("DELETE", f"{path}/f")

    more = {"metadata": {"finalizers": ["example.com/one", "example.com/two"]}}
    code, rejection = api.call("PATCH", f"{path}/f", more, content_type=MERGE)
    assert code == 422
    assert 'found new finalizers []string{"example.com/two"}' in rejection["message"]
    api.ok("PATCH", f"{path}/f", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert api.call("GET", f"{path}/f")[0] == 404


def test_quantities_are_stored_in_canonical_form(api: Api, namespace: str) -> None:
    hard = {"requests.cpu": "2000m", "requests.memory": "1024Mi", "pods": 5, "limits.cpu": "0.5"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    kept = api.ok("POST", f"/api/v1/namespaces/{namespace}/resourcequotas?dryRun=All", quota)["spec"]["hard"]
    assert kept == {"requests.cpu": "2", "requests.memory": "1Gi", "pods": "5", "limits.cpu": "500m"}


@pytest.mark.parametrize(
    ("plural", "group", "body"),
    [
        ("limitranges", "/api/v1", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}),
        ("roles", "/apis/rbac.authorization.k8s.io/v1", {"rules": []}),
    ],
)
def test_put_creates_if_the_kind_allows_it(
    api: Api, namespace: str, plural: str, group: str, body: dict[str, Any]
) -> None:
    path = f"{group}/namespaces/{namespace}/{plural}/new"
    code, created = api.call("PUT", path, {"metadata": {"name": "new"}, **body})
    assert (code, created["metadata"]["name"]) == (201, "new")


def test_uid_conflict_precedes_missing_version_error(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    api.ok("POST", path, {"metadata": {"name": "l"}})

    code, rejection = api.call("PUT", f"{path}/l", {"metadata": {"name": "l", "uid": "x"}})
    assert (code, rejection["reason"]) == (409, "Conflict")
    code, rejection = api.call("PUT", f"{path}/l", {"metadata": {"name": "l"}})
    assert code == 422
    assert rejection["message"].startswith('leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion')
    wrong = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}}
    code, rejection = api.call("DELETE", f"{path}/l", wrong)
    assert (code, rejection["details"]["group"]) == (409, "coordination.k8s.io")
    assert rejection["message"].startswith('Operation cannot be fulfilled on Lease.coordination.k8s.io "l": the UID')


def test_immediate_deletion_returns_the_unchanged_object(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.ok("POST", path, {"metadata": {"name": "a"}})
    gone = api.ok("DELETE", f"{path}/a")
    assert gone["kind"] == "ServiceAccount"
    assert "deletionTimestamp" not in gone["metadata"]


def test_table_counts_are_integers_and_unknown_fields_reported(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("t", k="1"))
    table = api.ok("GET", f"{path}/t", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert table["rows"][0]["cells"][1] == 1

    code, rejection = api.call("GET", f"{path}?fieldSelector=data.k=1")
    assert code == 400
    known = 'only "metadata.name", "metadata.namespace"'
    assert rejection["message"] == f'"data.k" is not a known field selector: {known}'


@pytest.mark.parametrize("reset", [[], [{}]])
def test_empty_managed_fields_reset_all_owners(api: Api, namespace: str, reset: list[Any]) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("c", k="1"))

    changed = api.ok("PATCH", f"{path}/c", {"metadata": {"managedFields": reset}}, content_type=MERGE)

    assert "managedFields" not in changed["metadata"]


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def test_kubectl_migrates_from_client_side_apply_and_back(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    config = config_map("c", kept="1", changed="2")
    client_side = {**config, "metadata": {"name": "c", "annotations": {LAST_APPLIED: json.dumps(config)}}}
    api.ok("POST", f"{path}?fieldManager=kubectl-client-side-apply", client_side)

    code, _ = api.call("PATCH", f"{path}/c?fieldManager=m", config_map("c", changed="3"), content_type=APPLY)
    assert code == 409
    applied = api.ok("PATCH", f"{path}/c?fieldManager=kubectl", config_map("c", changed="3"), content_type=APPLY)

    assert applied["data"] == {"kept": "1", "changed": "3"}
    assert applied["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"v1","data":{"changed":"3"},"kind":"ConfigMap","metadata":{"name":"c"}}\n'
    )


def test_apply_without_change_has_no_time(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("PATCH", f"{path}/c?fieldManager=one", config_map("c", k="1"), content_type=APPLY)

    applied = api.ok("PATCH", f"{path}/c?fieldManager=two", config_map("c", k="1"), content_type=APPLY)

    assert [(entry["manager"], "time" in entry) for entry in applied["metadata"]["managedFields"]] == [
        ("two", False),
        ("one", True),
    ]


def test_repeated_apply_of_an_uncanonical_value_writes_nothing(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/limitranges/l?fieldManager=m"
    spec = {"limits": [{"type": "Container", "max": {"cpu": "1000m"}}]}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": spec}
    first = api.ok("PATCH", path, limits, content_type=APPLY)
    time.sleep(1.1)  # Times of managers have seconds.

    second = api.ok("PATCH", path, limits, content_type=APPLY)

    assert second == first
    assert second["spec"]["limits"][0]["max"] == {"cpu": "1"}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "[]",
            400,
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go "
            "value of type map[string]interface {}",
        ),
        ("", 400, "invalid object type: /, Kind="),
        ("kind: Secret\napiVersion: v1", 400, "invalid object type: /v1, Kind=Secret"),
        (
            "kind: ConfigMap\napiVersion: v1\nmetadata: {managedFields: []}\nx: 1",
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: z}\nx: 1",
            500,
            "failed to create typed patch object (/z; /v1, Kind=ConfigMap): .x: field not declared in schema",
        ),
        (
            "kind: ConfigMap\napiVersion: v1\nbinaryData: {a: '*'}",
            500,
            "failed to convert new object (/; /v1, Kind=ConfigMap) to proper version: unable to convert unstructured "
            "object to /v1, Kind=ConfigMap: error decoding from json: illegal base64 data at input byte 0",
        ),
        (
            "kind: ConfigMap\napiVersion: v1\ndata:\n  a: b\n  a: c",
            400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 5: key "a" already set in map',
        ),
    ],
)
def test_invalid_configuration_is_rejected(api: Api, namespace: str, body: str, code: int, message: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/c?fieldManager=m&fieldValidation=Strict"

    status, found = api.call("PATCH", path, body.encode(), content_type=APPLY)

    assert (status, found["message"]) == (code, message)
