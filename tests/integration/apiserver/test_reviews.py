"""Tests for reviews and token requests: metadata, retained status, order of errors, null values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Api, Server

_AUTHENTICATION = "/apis/authentication.k8s.io/v1"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_ABOUT = {"resourceAttributes": {"namespace": "default", "resource": "pods", "verb": "get"}}


@pytest.fixture(scope="module")
def node_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Client of the administrator of a server of the latest release, which authorizes nodes."""
    options = ("--authorization-mode=Node,RBAC", "--compatibility-version=1.36")
    server = Server(tmp_path_factory.mktemp("latest"), *options)
    yield server.api()
    assert server.stop() == 0


def test_system_metadata_of_an_access_review_is_ignored(api: Api) -> None:
    metadata = {"uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1}
    path = f"{_AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    review = {"metadata": metadata, "spec": {**_ABOUT, "user": "jane", "extra": {"scopes": None}}}

    response = api.ok("POST", path, review)

    (entry,) = response["metadata"].pop("managedFields")
    assert response["metadata"] == {"namespace": "default", "creationTimestamp": None}
    assert entry["fieldsV1"]["f:spec"].keys() == {"f:extra", "f:resourceAttributes", "f:user"}
    assert response["spec"]["extra"] == {"scopes": None}
    assert response["status"]["allowed"] is False


@pytest.mark.parametrize(
    ("review", "fields"),
    [
        ({"spec": {**_ABOUT}}, ["spec.user"]),
        ({"spec": {"user": "jane"}}, ["spec.resourceAttributes"]),
        ({"metadata": {"labels": {"a": "b"}}, "spec": {**_ABOUT, "groups": ["dev"]}}, ["metadata"]),
        ({"spec": {**_ABOUT, "nonResourceAttributes": {}, "user": "jane"}}, ["spec.nonResourceAttributes"]),
    ],
)
def test_invalid_access_review_is_rejected(api: Api, review: Any, fields: list[str]) -> None:
    code, status = api.call("POST", f"{_AUTHORIZATION}/subjectaccessreviews", review)

    assert code == 422
    assert [cause["field"] for cause in status["details"]["causes"]] == fields


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({}, "requirements"),
        ({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}, "rawSelector"),
        ({"requirements": [{"key": "a", "operator": "In"}]}, "requirements[0].values"),
        ({"requirements": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "requirements[0].values"),
        ({"requirements": [{"operator": "Exists"}]}, "requirements[0].key"),
    ],
)
def test_invalid_selector_of_a_review_is_rejected(api: Api, selector: Any, field: str) -> None:
    for name in ("fieldSelector", "labelSelector"):
        about = {**_ABOUT["resourceAttributes"], name: selector}
        review = {"spec": {"resourceAttributes": about}}
        code, status = api.call("POST", f"{_AUTHORIZATION}/selfsubjectaccessreviews", review)

        assert code == 422
        assert [cause["field"] for cause in status["details"]["causes"]] == [f"spec.resourceAttributes.{name}.{field}"]


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        (None, False),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}, True),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n2"]}]}, False),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1", "n2"]}]}, False),
        ({"rawSelector": "spec.nodeName=n1"}, True),
        ({"rawSelector": "spec.nodeName!=n1"}, False),
    ],
)
def test_review_for_a_node_considers_the_selected_node(node_api: Api, selector: Any, allowed: bool) -> None:
    about = {"resource": "pods", "verb": "list", **({"fieldSelector": selector} if selector else {})}
    spec = {"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": about}

    response = node_api.ok("POST", f"{_AUTHORIZATION}/subjectaccessreviews", {"spec": spec})

    assert response["status"]["allowed"] is allowed


def test_review_with_an_invalid_option_is_rejected(api: Api) -> None:
    code, _ = api.call("POST", f"{_AUTHORIZATION}/selfsubjectaccessreviews?dryRun=x", {"spec": _ABOUT})

    assert code == 422


def test_self_review_retains_nothing_of_the_request(api: Api) -> None:
    review = api.ok("POST", f"{_AUTHENTICATION}/selfsubjectreviews", {"metadata": {"labels": {"a": "b"}}})

    assert review["metadata"].keys() == {"creationTimestamp"}
    assert review["status"]["userInfo"]["username"]


def test_token_review_retains_the_status_of_an_unknown_token(api: Api) -> None:
    review = {"spec": {"token": "unknown"}, "status": {"authenticated": True, "user": {"uid": "u"}}}

    response = api.ok("POST", f"{_AUTHENTICATION}/tokenreviews", review)

    assert response["status"] == {"user": {"uid": "u"}, "error": "invalid bearer token"}


def test_token_request_with_another_name_is_rejected_first(api: Api) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/missing/token"

    code, status = api.call("POST", path, {"metadata": {"name": "other"}})
    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.name")
    assert api.call("POST", path, {})[0] == 404


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ({}, 400),
        ({"kind": "Pod"}, 400),
        ({"kind": "Pod", "apiVersion": "apps/v1", "name": "a"}, 400),
        ({"kind": "Pod", "apiVersion": "v1", "name": "a"}, 404),
        ({"kind": "Secret", "name": "a"}, 404),
    ],
)
def test_token_is_bound_to_an_existing_object(api: Api, reference: Any, code: int) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"

    assert api.call("POST", path, {"spec": {"boundObjectRef": reference}})[0] == code
