"""Tests for reviews of tokens, users and access."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authz import ALLOW, AuthorizationResult, Chain
from apiserver_stub.verbs.context import VerbSettings
from tests.unit.apiserver_stub.api import ADMIN, Api, Object

AUTHORIZATION, AUTHENTICATION = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
LOCAL = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
GET = {"verb": "get", "resource": "pods", "namespace": "default"}


class Decisions:
    """Authorizer that decides by the name of the user, and records what it receives."""

    def __init__(self) -> None:
        self.seen: list[tuple[User, RequestInfo]] = []

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.seen.append((user, info))
        match user.name:
            case "allowed":
                return ALLOW
            case "denied":
                return AuthorizationResult("deny", "because", "")
        return AuthorizationResult("no-opinion", "", "broken")


class Tokens:
    """Authenticator that recognizes one token."""

    async def authenticate(self, *_: object, **__: object) -> User:
        return ADMIN

    async def review(self, token: str, audiences: Sequence[str]) -> Any:
        if token == "rejected":
            raise Rejected("expired")
        user = User("u", "id", ("g",), {"k": ("v",)}) if token == "full" else User("u")
        return SimpleNamespace(user=user, audiences=audiences or ("api",)) if token in ("full", "plain") else None


def server(*arguments: str, **settings: Any) -> tuple[Api, Decisions]:
    decisions: Any = Decisions()
    return Api(*arguments, authorizer=Chain([decisions]), settings=VerbSettings(**settings)), decisions


async def test_access_of_another_user_is_decided() -> None:
    api, decisions = server()
    for name, status in (
        ("allowed", {"allowed": True}),
        ("denied", {"allowed": False, "denied": True, "reason": "because"}),
        ("other", {"allowed": False, "evaluationError": "broken"}),
    ):
        spec = {"user": name, "uid": "id", "groups": ["g"], "extra": {"k": ["v"]}, "resourceAttributes": GET}
        response = await api.request("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
        assert (response.code, response.obj["status"]) == (201, status), name
        user, info = decisions.seen[-1]
        assert user == User(name, "id", ("g",), {"k": ("v",)}), name
        assert (info.verb, info.resource, info.namespace) == ("get", "pods", "default"), name


async def test_own_access_is_that_of_the_user_of_the_request() -> None:
    api, decisions = server()
    api.user = User("allowed", groups=("g",))
    spec = {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}
    response = await api.request("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec})
    user, info = decisions.seen[-1]
    assert response.obj["status"] == {"allowed": True}
    assert (user.name, info.path, info.is_resource) == ("allowed", "/healthz", False)


async def test_invalid_reviews_are_rejected() -> None:
    api, _ = server()
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    for target, obj, code, message in (
        (path, {"spec": {"user": "u"}}, 422, "exactly one of nonResourceAttributes or resourceAttributes"),
        (path, {"spec": {"resourceAttributes": GET}}, 422, "at least one of user or group must be specified"),
        (path, {"metadata": {"name": "x"}, "spec": {"user": "u", "resourceAttributes": GET}}, 422, "must be empty"),
        (LOCAL, {"spec": {"user": "u", "resourceAttributes": GET}}, 201, ""),
        (
            LOCAL,
            {"spec": {"user": "u", "resourceAttributes": {**GET, "namespace": "x"}}},
            422,
            "must match metadata.name",
        ),
        (f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}, 400, "no namespace on request"),
        (f"{AUTHENTICATION}/tokenreviews", {"spec": {}}, 400, "token is required for TokenReview in authentication"),
    ):
        response = await api.request("POST", target, obj)
        assert (response.code, message in response.message) == (code, True), (target, obj, response.body)
        if code == 422:
            assert msgspec.json.decode(response.body)["details"].keys() == {"group", "causes"}


async def test_users_of_tokens_are_returned() -> None:
    api = Api(authenticator=Tokens())
    full = {"username": "u", "uid": "id", "groups": ["g"], "extra": {"k": ["v"]}}
    for token, audiences, expected in (
        ("full", [], {"authenticated": True, "user": full, "audiences": ["api"]}),
        ("plain", ["a"], {"authenticated": True, "user": {"username": "u", "groups": []}, "audiences": ["a"]}),
        ("other", [], {"user": {}}),
        ("rejected", [], {"user": {}, "error": "expired"}),
    ):
        review = {"spec": {"token": token, "audiences": audiences}, "status": {"authenticated": True}}
        response = await api.request("POST", f"{AUTHENTICATION}/tokenreviews", review)
        assert (response.code, response.obj["status"]) == (201, expected), token


async def test_own_user_is_returned() -> None:
    api = Api()
    api.user = User("alice", groups=("system:masters",))
    response = await api.request("POST", f"{AUTHENTICATION}/selfsubjectreviews", {})
    assert response.obj["status"]["userInfo"] == {"username": "alice", "groups": ["system:masters"]}


async def test_creation_time_of_access_reviews_is_null_in_early_releases() -> None:
    for shows in (True, False):
        api, _ = server(shows_null_times=shows)
        spec: Object = {"user": "allowed", "resourceAttributes": GET}
        response = await api.request("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
        assert ("creationTimestamp" in response.obj["metadata"]) is shows


async def test_attributes_of_a_review_are_those_of_the_request() -> None:
    full = {
        "verb": "get",
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "subresource": "scale",
        "namespace": "x",
        "name": "a",
    }
    for attributes, expected in (
        (full, RequestInfo("get", "", "apps", "v1", "deployments", "scale", "x", "a")),
        ({"verb": "get", "resource": "pods"}, RequestInfo("get", "", "", "*", "pods", "", "", "")),
    ):
        api, decisions = server()
        spec: Object = {"user": "allowed", "resourceAttributes": attributes}
        response = await api.request("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
        assert response.code == 201, response.body
        assert decisions.seen[-1][1] == expected, attributes


async def test_node_of_a_field_selector_is_authorized() -> None:
    def required(operator: str, *values: str, key: str = "spec.nodeName") -> Object:
        return {"requirements": [{"key": key, "operator": operator, "values": list(values)}]}

    for selector, node in (
        (required("In", "n"), "n"),
        (required("In", "n", "m"), ""),
        (required("NotIn", "n"), ""),
        (required("In", "n", key="metadata.name"), ""),
        ({"rawSelector": "spec.nodeName=n"}, "n"),
        ({"rawSelector": "spec.nodeName!=n"}, ""),
        ({"rawSelector": "spec.nodeName"}, ""),
        (None, ""),
    ):
        api, decisions = server("--compatibility-version=1.34")
        attributes: Object = {**GET, "verb": "list", **({} if selector is None else {"fieldSelector": selector})}
        spec: Object = {"user": "allowed", "resourceAttributes": attributes}
        response = await api.request("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
        assert (response.code, decisions.seen[-1][1].selected_node) == (201, node), (selector, response.body)


async def test_status_of_a_token_review_is_kept() -> None:
    api = Api(authenticator=Tokens())
    for status, expected in (
        (None, {"user": {}}),
        ({"user": {"username": "x"}, "authenticated": True}, {"user": {"username": "x"}}),
    ):
        review: Object = {"spec": {"token": "other"}, **({} if status is None else {"status": status})}
        response = await api.request("POST", f"{AUTHENTICATION}/tokenreviews", review)
        assert response.obj["status"] == expected, status


async def test_token_review_without_a_specification_is_rejected() -> None:
    response = await Api(authenticator=Tokens()).request("POST", f"{AUTHENTICATION}/tokenreviews", {})
    assert (response.code, "token is required" in response.message) == (400, True)
