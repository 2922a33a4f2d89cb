"""Tests for the path of a request: authorization, formats of errors, draining and failures."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authz import ALLOW, AuthorizationResult, Chain
from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.verbs.admission import AdmissionRequest
from tests.unit.apiserver_stub.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"


class Readers:
    """Authorizer that allows reads, and more *verbs*."""

    def __init__(self, *verbs: str) -> None:
        self.verbs, self.seen = ("get", "list", "watch", *verbs), list[RequestInfo]()

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.seen.append(info)
        return ALLOW if info.verb in self.verbs else AuthorizationResult("no-opinion", "readers only")


def restricted(*verbs: str, **handler: Any) -> tuple[Api, Readers]:
    readers: Any = Readers(*verbs)
    api = Api(authorizer=Chain([readers]), **handler)
    api.user = User("alice", groups=("system:authenticated",))
    return api, readers


class Fails(AdmissionPlugin):
    """Admission plugin with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def admit(self, call: AdmissionRequest) -> None:
        raise self.error


async def test_requests_are_authorized_before_formats_are_checked() -> None:
    api, _ = restricted()
    for method, accept, code in (
        ("GET", "", 200),
        ("POST", "", 403),
        ("GET", "text/x", 406),
        ("POST", "text/x", 403),
    ):
        response = await api.request(method, MAPS, config_map("a"), Accept=accept)
        assert response.code == code, (method, accept)
    response = await api.request("POST", MAPS, config_map("a"))
    text = 'configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace'
    assert response.message.startswith(text)


async def test_authorizers_receive_selectors_if_enabled() -> None:
    for enabled in (True, False):
        api, readers = restricted(authorizes_selectors=enabled)
        await api.get(f"{MAPS}?fieldSelector=metadata.name=a&labelSelector=a=b")
        (info,) = readers.seen
        assert (info.verb, bool(info.selected.fields or info.selected.labels)) == ("list", enabled)


async def test_errors_are_indented_for_terminals() -> None:
    api = Api()
    for target, agent, pretty in (
        (f"{MAPS}/x", "curl/8", True),
        (f"{MAPS}/x", "kubectl", False),
        (f"{MAPS}/x?pretty=1", "kubectl", True),
        (f"{MAPS}/x?pretty=0", "curl/8", False),
    ):
        response = await api.get(target, User_Agent=agent)
        assert (response.code, response.body.startswith(b"{\n")) == (404, pretty), (target, agent)
    await api.create(MAPS, config_map("a"))
    for accept in ("", "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        response = await api.get(f"{MAPS}/a?pretty=1", Accept=accept)
        assert response.body.startswith(b"{\n"), accept


async def test_draining_server_serves_only_health_checks() -> None:
    for retry, target, code in ((False, MAPS, 503), (True, MAPS, 429), (True, "/livez", 404), (False, "/livez", 503)):
        api = Api(sends_retry_after=retry)
        api.lifecycle.draining = True
        assert (await api.get(target)).code == code, (retry, target)


async def test_failures_have_a_status() -> None:
    for error, code, message in (
        (StoreUnavailable("no space"), 503, "no space"),
        (RecursionError(), 400, "json: exceeded max depth"),
        (ValueError("bug"), 500, "ValueError"),
    ):
        api = Api(plugins=[Fails(error)])
        response = await api.request("POST", MAPS, config_map("a"))
        assert (response.code, message in response.message) == (code, True), error


async def test_lost_connection_ends_the_request() -> None:
    api = Api(plugins=[Fails(ConnectionResetError())])
    with pytest.raises(ConnectionResetError):
        await api.request("POST", MAPS, config_map("a"))


async def test_unauthenticated_http2_connections_are_closed_if_enabled() -> None:
    for closes, user, version, expected in (
        (True, ANONYMOUS, (2, 0), True),
        (True, ANONYMOUS, (1, 1), False),
        (True, User("alice"), (2, 0), False),
        (False, ANONYMOUS, (2, 0), False),
    ):
        api = Api(closes_unauthenticated=closes)
        api.user = user
        http = api.http("GET", MAPS)
        http.version = version
        await api.handler.handle(http)
        assert http.closes is expected, (closes, user, version)


async def test_long_responses_are_compressed_if_accepted() -> None:
    for enabled, method, accept, size, expected in (
        (True, "GET", "gzip", 200_000, True),
        (True, "GET", "gzip", 10, False),
        (True, "GET", "", 200_000, False),
        (False, "GET", "gzip", 200_000, False),
        (True, "PUT", "gzip", 200_000, False),
    ):
        api = Api(compresses=enabled)
        stored = await api.create(MAPS, config_map("a", {"k": "x" * size}))
        body = stored if method == "PUT" else None
        response = await api.request(method, f"{MAPS}/a", body, Accept_Encoding=accept)
        compressed = response.headers.get("Content-Encoding") == "gzip"
        assert compressed is expected, (enabled, method, accept, size)
        content = gzip.decompress(response.body) if compressed else response.body
        assert len(content) > size, (enabled, method, accept, size)


async def test_impersonation_requires_a_permission() -> None:
    for verbs, code in (((), 403), (("impersonate",), 200)):
        api, readers = restricted(*verbs)
        response = await api.get(MAPS, Impersonate_User="bob")
        assert response.code == code, verbs
        assert readers.seen[0].verb == "impersonate", verbs


async def test_head_of_a_request_must_be_utf_8() -> None:
    api = Api()
    assert (await api.get(f"{MAPS}?x=\udcff")).code == 400
    assert (await api.get(f"{MAPS}?labelSelector=a", User_Agent="ü")).code == 200
