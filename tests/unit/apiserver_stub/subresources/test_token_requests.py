"""Tests for token requests: audiences, bound objects and preconditions on the account."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from apiserver_stub.authn.token_keys import SigningError
from tests.unit.apiserver_stub.api import Api, Object

PATH = "/api/v1/namespaces/default/serviceaccounts/robot/token"


class Tokens:
    """Issuer of tokens that records what it issues."""

    api_audiences = ("api",)

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.issued = fails, list[tuple[tuple[str, ...], int, Any]]()

    async def issue(self, account: Object, audiences: Sequence[str], seconds: int, bound: Any) -> Any:
        if self.fails:
            raise SigningError("no key")
        self.issued.append((tuple(audiences), seconds, bound and (bound[0], bound[1]["metadata"]["name"])))
        return SimpleNamespace(token="t", seconds=seconds, expires_at=0, warnings=["soon"])


def server(*arguments: str, fails: bool = False) -> tuple[Api, Tokens]:
    tokens = Tokens(fails=fails)
    api = Api(*arguments, tokens=tokens)
    pod = {"serviceAccountName": "robot"}
    for collection, name, namespace, spec in (
        ("serviceaccounts", "robot", "default", {}),
        ("pods", "p", "default", pod),
        ("pods", "q", "default", {}),
        ("secrets", "s", "default", {}),
        ("nodes", "n", "", {}),
    ):
        metadata = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
        api.store.put(f"core/{collection}", {"metadata": metadata, "spec": spec})
    return api, tokens


def reference(kind: str, name: str, **fields: str) -> Object:
    return {"kind": kind, "apiVersion": "v1", "name": name, **fields}


async def test_token_has_the_requested_audiences_and_lifetime() -> None:
    for spec, issued in (
        ({}, (("api",), 3600, None)),
        ({"audiences": ["a", "b"], "expirationSeconds": 700}, (("a", "b"), 700, None)),
        ({"audiences": []}, (("api",), 3600, None)),
    ):
        api, tokens = server()
        response = await api.request("POST", PATH, {"spec": spec})
        assert (response.code, tokens.issued, response.warnings) == (201, [issued], ["soon"]), spec
        found = response.obj
        assert found["status"] == {"token": "t", "expirationTimestamp": "1970-01-01T00:00:00Z"}, spec
        assert (found["metadata"]["name"], found["spec"]["audiences"]) == ("robot", list(issued[0])), spec


async def test_token_is_bound_to_an_existing_object_of_the_account() -> None:
    for given, code, message in (
        (reference("Pod", "p"), 201, ""),
        (reference("Pod", "p", uid="uid-p"), 201, ""),
        (reference("Secret", "s"), 201, ""),
        (
            reference("Pod", "p", uid="x"),
            409,
            "the UID in the bound object reference (x) does not match the UID in record",
        ),
        (reference("Pod", "x"), 404, 'pods "x" not found'),
        (reference("Pod", "q"), 400, 'cannot bind token for serviceaccount "robot" to pod running with different'),
        (reference("Pod", ""), 400, "Name parameter required."),
        (reference("Service", "s"), 400, "cannot bind token to object of type /v1, Kind=Service"),
        (reference("Pod", "p", apiVersion="apps/v1"), 400, "cannot bind token to object of type apps/v1, Kind=Pod"),
        (reference("Pod", "p", apiVersion="a/b/c"), 201, ""),
        (reference("Node", "n"), 400, 'the "ServiceAccountTokenNodeBinding" feature-gate is disabled'),
    ):
        api, tokens = server()
        response = await api.request("POST", PATH, {"spec": {"boundObjectRef": given}})
        assert (response.code, message in response.message) == (code, True), (given, response.body)
        assert [bound for _, _, bound in tokens.issued] == ([(given["kind"], given["name"])] if code == 201 else []), (
            given
        )
    api, tokens = server("--feature-gates=ServiceAccountTokenNodeBinding=true")
    await api.request("POST", PATH, {"spec": {"boundObjectRef": reference("Node", "n")}})
    assert [bound for _, _, bound in tokens.issued] == [("Node", "n")]


async def test_unusable_requests_are_rejected() -> None:
    for target, obj, fails, code, message in (
        (PATH, {"metadata": {"name": "x"}}, False, 422, "must match the service account name if specified"),
        (PATH, {"metadata": {"name": "robot"}}, False, 201, ""),
        (PATH, {"metadata": {"namespace": "x"}}, False, 400, "does not match the namespace"),
        (PATH, {"spec": {"expirationSeconds": 5}}, False, 422, "may not specify a duration less than 10 minutes"),
        (PATH.replace("robot", "x"), {}, False, 404, 'serviceaccounts "x" not found'),
        (PATH, {}, True, 500, "failed to generate token: no key"),
    ):
        api, _ = server(fails=fails)
        response = await api.request("POST", target, obj)
        assert (response.code, message in response.message) == (code, True), (target, obj, response.body)


async def test_uid_is_a_precondition_on_the_account_if_enabled() -> None:
    gate = "--feature-gates=TokenRequestServiceAccountUIDValidation"
    text = "the UID in the token request (x) does not match the UID of the service account (uid-robot)"
    for arguments, uid, code, found, message in (
        (("--compatibility-version=1.33",), "x", 201, None, ""),
        (("--compatibility-version=1.36",), "", 201, "uid-robot", ""),
        (("--compatibility-version=1.36",), "uid-robot", 201, "uid-robot", ""),
        (("--compatibility-version=1.36",), "x", 409, None, text),
        (("--compatibility-version=1.36", f"{gate}=false"), "x", 201, "x", f"{text} but"),
        (("--compatibility-version=1.36", f"{gate}=false"), "uid-robot", 201, "uid-robot", ""),
    ):
        api, _ = server(*arguments)
        response = await api.request("POST", PATH, {"metadata": {"uid": uid}})
        assert response.code == code, (arguments, uid, response.body)
        if code == 201:
            assert response.obj["metadata"].get("uid") == found, (arguments, uid)
            assert len(response.warnings) == (2 if message else 1), (arguments, uid)
            assert message in response.warnings[0], (arguments, uid)
        else:
            assert message in response.message, (arguments, uid)
