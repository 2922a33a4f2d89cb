"""Tests for unusual resource versions in every verb; the expected responses are those of kube-apiserver 1.29."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Api, Server

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
NO_NUMBER = 'strconv.ParseUint: parsing "abc": invalid syntax'


def config_map(name: str, version: str | None = None) -> dict[str, Any]:
    metadata = {"name": name} | ({} if version is None else {"resourceVersion": version})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize("version", ["0", "00", "abc", "v1", "-1", "18446744073709551616", ""])
def test_create_ignores_a_version_that_is_zero_or_invalid(api: Api, namespace: str, version: str) -> None:
    created = api.ok("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("a", version))

    assert created["metadata"]["resourceVersion"] not in ("", "0", version)


def test_create_with_a_version_is_an_error_only_when_stored(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    code, error = api.call("POST", path, config_map("a", "7"))
    assert (code, error["message"]) == (500, "resourceVersion should not be set on objects to be created")
    code, error = api.call("POST", path, config_map("A_A", "7"))
    assert (code, error["reason"]) == (422, "Invalid")
    dry = api.ok("POST", f"{path}?dryRun=All", config_map("a", "7"))
    assert dry["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("method", "content_type"), [("PUT", "application/json"), ("PATCH", MERGE), ("PATCH", STRATEGIC), ("PATCH", APPLY)]
)
def test_write_with_an_invalid_version_is_an_error(api: Api, namespace: str, method: str, content_type: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("a"))
    query = "?fieldManager=m&force=true" if content_type == APPLY else ""

    code, error = api.call(method, f"{path}/a{query}", config_map("a", "abc"), content_type=content_type)
    assert (code, error["message"]) == (500, NO_NUMBER)
    api.ok(method, f"{path}/a{query}", config_map("a", "00"), content_type=content_type)


def test_write_that_creates_ignores_a_valid_version(api: Api, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    maps = f"/api/v1/namespaces/{namespace}/configmaps"

    code, _ = api.call("PUT", f"{leases}/l", {"metadata": {"name": "l", "resourceVersion": "7"}})
    assert code == 201
    code, error = api.call("PUT", f"{leases}/k", {"metadata": {"name": "k", "resourceVersion": "abc"}})
    assert (code, error["message"]) == (500, NO_NUMBER)
    code, _ = api.call("PATCH", f"{maps}/n?fieldManager=m", config_map("n", "7"), content_type=APPLY)
    assert code == 201


def test_patch_that_removes_a_required_version_is_an_error(api: Api, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    api.ok("POST", leases, {"metadata": {"name": "l"}})

    code, error = api.call("PATCH", f"{leases}/l", {"metadata": {"resourceVersion": None}}, content_type=MERGE)
    assert code == 422
    assert "must be specified for an update" in error["message"]


def test_apply_of_a_new_object_needs_its_name(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/n?fieldManager=m"
    body = {"apiVersion": "v1", "kind": "ConfigMap"}

    code, error = api.call("PATCH", path, body, content_type=APPLY)
    assert code == 400
    assert "(n based on URL) was undeterminable" in error["message"]
    api.ok("PATCH", path, config_map("n"), content_type=APPLY)
    api.ok("PATCH", path, body, content_type=APPLY)


@pytest.mark.parametrize("version", ["", "0", "abc", "1"])
def test_deletion_compares_the_version_literally(api: Api, namespace: str, version: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("a"))

    code, error = api.call("DELETE", f"{path}/a", {"preconditions": {"resourceVersion": version}})
    assert code == 409
    assert f"the ResourceVersion in the precondition ({version}) does not match" in error["message"]


def test_binding_has_preconditions_and_dry_run(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "none"}
    api.ok("POST", path, {"metadata": {"name": "p"}, "spec": spec})
    binding = {"metadata": {"name": "p", "resourceVersion": "1"}, "target": {"name": "n"}}

    code, error = api.call("POST", f"{path}/p/binding", binding)
    assert code == 409
    assert (
        "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: " in error["message"]
    )
    api.ok("POST", f"{path}/p/binding?dryRun=All", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    assert "nodeName" not in api.ok("GET", f"{path}/p")["spec"]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("resourceVersion=abc", 500, f'resourceVersion: Invalid value: "abc": {NO_NUMBER}'),
        ("resourceVersion=abc&limit=1", 400, 'invalid resource version: resourceVersion: Invalid value: "abc": '),
        ("resourceVersion=99999999&resourceVersionMatch=Exact", 500, "etcdserver: mvcc: required revision is a future"),
        ("resourceVersion=18446744073709551615", 504, "Timeout: Too large resource version: 18446744073709551615"),
        ("resourceVersion=abc&watch=1", 500, f'resourceVersion: Invalid value: "abc": {NO_NUMBER}'),
        ("resourceVersion=abc&watch=1&resourceVersionMatch=Exact", 422, "ListOptions.meta.k8s.io"),
    ],
)
def test_read_with_an_unusual_version_is_an_error(
    api: Api, namespace: str, query: str, code: int, message: str
) -> None:
    found, error = api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps?{query}")

    assert found == code
    assert error["message"].startswith(message)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Client of a server of release 1.36."""
    found = Server(tmp_path_factory.mktemp("newest"), "--compatibility-version=1.36")
    client = found.api()
    yield client
    client.close()
    assert found.stop() == 0


@pytest.mark.parametrize(
    ("query", "code", "message", "retry_seconds"),
    [
        (
            "configmaps?resourceVersion=abc",
            400,
            'invalid resource version: resourceVersion: Invalid value: "abc": ',
            None,
        ),
        ("configmaps?resourceVersion=abc&watch=1", 500, f'resourceVersion: Invalid value: "abc": {NO_NUMBER}', None),
        ("configmaps/a?resourceVersion=abc", 500, f'resourceVersion: Invalid value: "abc": {NO_NUMBER}', None),
        (
            "configmaps?resourceVersion=99999999&resourceVersionMatch=Exact",
            504,
            "Timeout: Too large resource version",
            1,
        ),
        ("configmaps?resourceVersion=99999999&limit=3", 504, "Timeout: Too large resource version", 1),
        ("events?resourceVersion=99999999&limit=3", 504, "Timeout: Too large resource version", None),
    ],
)
def test_unusual_versions_are_other_errors_in_release_1_36(
    newest: Api, query: str, code: int, message: str, retry_seconds: int | None
) -> None:
    found, error = newest.call("GET", f"/api/v1/namespaces/default/{query}")

    assert found == code
    assert error["message"].startswith(message)
    assert (error.get("details") or {}).get("retryAfterSeconds") == retry_seconds


def test_read_of_one_object_with_an_invalid_version_is_an_error(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"

    code, error = api.call("GET", f"{path}/configmaps/a?resourceVersion=abc")
    assert (code, error["message"]) == (500, f'resourceVersion: Invalid value: "abc": {NO_NUMBER}')
    code, error = api.call("GET", f"{path}/events/a?resourceVersion=abc")  # read from the store, not from a cache
    assert code == 400
    assert error["message"].startswith("invalid resource version: ")


def test_watch_reports_every_invalid_option(api: Api, namespace: str) -> None:
    code, error = api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps?watch=1&resourceVersionMatch=Exact")

    assert code == 422
    assert [cause["reason"] for cause in error["details"]["causes"]] == [
        "FieldValueForbidden",
        "FieldValueNotSupported",
    ]
