"""Tests for the authorization of requests and its metrics."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from multidict import CIMultiDict

from apiserver_stub.apimachinery.request import Query, RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import ALL, selected_objects
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authz import ALLOW, NO_OPINION, AuthorizationResult
from apiserver_stub.pipeline.authorization import Authorization, pinned
from apiserver_stub.pipeline.error_responses import AuthorizationFailed, PlainError
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from nodeagent.base.identity import Identity

PODS = RequestInfo("list", "/api/v1/pods", "", "v1", "pods")


class FixedAuthorizer:
    """Authorizer with a fixed decision."""

    def __init__(self, decision: AuthorizationResult) -> None:
        self._decision = decision

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        return self._decision


async def test_denied_no_opinion_and_error_are_counted_separately() -> None:
    metrics = RequestMetrics()

    for decision, raised in (
        (ALLOW, None),
        (NO_OPINION, ApiError),
        (AuthorizationResult("no-opinion", "RBAC: nothing"), ApiError),
        (AuthorizationResult("deny", "no"), ApiError),
        (AuthorizationResult("no-opinion", error="the service is away"), AuthorizationFailed),
    ):
        authorization = Authorization(FixedAuthorizer(decision), metrics, Identity())  # type: ignore[arg-type]
        if raised is None:
            await authorization.authorize(User("alice"), PODS, None)
        else:
            with pytest.raises(raised):
                await authorization.authorize(User("alice"), PODS, None)

    assert (metrics.allowed, metrics.no_opinion, metrics.denied, metrics.undecided) == (1, 2, 1, 1)


def test_selectors_are_attributes_if_the_gate_is_enabled() -> None:
    query = Query("fieldSelector=spec.nodeName%3Da&labelSelector=app%3Db")
    selected = selected_objects("spec.nodeName=a", "app=b")

    assert pinned(PODS, query, selects=True).selected == selected
    assert pinned(PODS, query, selects=True).selected_node == "a"
    assert pinned(PODS, Query("labelSelector=app%3Db"), selects=True).selected == selected_objects("", "app=b")
    assert pinned(PODS, query).selected == ALL
    get = RequestInfo("get", "/api/v1/pods/a", "", "v1", "pods", name="a")
    assert pinned(get, query, selects=True) == get


async def test_denied_request_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    authorizer = FixedAuthorizer(AuthorizationResult("no-opinion", "RBAC: no rule"))
    authorization = Authorization(authorizer, RequestMetrics(), Identity())  # type: ignore[arg-type]

    with pytest.raises(ApiError):
        await authorization.authorize(User("alice"), PODS, None)

    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["URI"]) == ("Forbidden", "/api/v1/pods")
    assert vars(record)["reason"] == "RBAC: no rule"


@pytest.mark.parametrize("constrains", [True, False])
@pytest.mark.parametrize(
    ("granted", "permitted"),
    [
        ({"impersonate-on:user-info:list", "impersonate:user-info"}, True),
        ({"impersonate-on:user-info:get", "impersonate:user-info"}, False),
        ({"impersonate-on:user-info:list"}, False),
    ],
)
async def test_impersonation_may_be_permitted_for_one_verb(
    constrains: bool, granted: set[str], permitted: bool
) -> None:
    class Granted:
        async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
            return ALLOW if info.verb in granted else NO_OPINION

    authorization = Authorization(Granted(), RequestMetrics(), Identity(), constrains=constrains)  # type: ignore[arg-type]
    http: Any = SimpleNamespace(headers={"Impersonate-User": "alice"}, target="/api/v1/pods")

    if permitted and constrains:
        assert (await authorization.impersonate(User("jane"), http, PODS, None)).name == "alice"
    else:
        with pytest.raises(ApiError, match='cannot impersonate resource "users" in API group ""'):
            await authorization.impersonate(User("jane"), http, PODS, None)


async def test_permission_to_impersonate_suffices() -> None:
    class Granted:
        async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
            return ALLOW if info.verb == "impersonate" else NO_OPINION

    authorization = Authorization(Granted(), RequestMetrics(), Identity(), constrains=True)  # type: ignore[arg-type]
    http: Any = SimpleNamespace(headers={"Impersonate-User": "alice"}, target="/api/v1/pods")

    assert (await authorization.impersonate(User("jane"), http, PODS, None)).name == "alice"


@pytest.mark.parametrize(
    ("verb", "selector", "name", "node"),
    [
        ("list", "metadata.name=a", "a", ""),
        ("watch", "metadata.name=a", "a", ""),
        ("deletecollection", "metadata.name=a", "", ""),
        ("deletecollection", "spec.nodeName=n", "", "n"),
        ("list", "spec.nodeName=n,metadata.name=a", "a", "n"),
        ("list", "metadata.name=a/b", "", ""),
        ("list", "metadata.name!=a", "", ""),
        ("list", "metadata.name", "", ""),
        ("create", "metadata.name=a,spec.nodeName=n", "", ""),
    ],
)
def test_name_and_node_of_a_field_selector_are_authorized(verb: str, selector: str, name: str, node: str) -> None:
    info = RequestInfo(verb, "/api/v1/pods", "", "v1", "pods")

    found = pinned(info, Query(f"fieldSelector={quote(selector)}"))

    assert (found.name, found.selected_node) == (name, node)


@pytest.mark.parametrize(
    ("info", "reason", "message"),
    [
        (RequestInfo("get", "/metrics"), "", 'forbidden: User "alice" cannot get path "/metrics"'),
        (RequestInfo("get", "/metrics"), "why", 'forbidden: User "alice" cannot get path "/metrics": why'),
        (
            PODS,
            "",
            'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope',
        ),
        (
            RequestInfo("get", "", "apps", "v1", "deployments", "scale", "web", "a"),
            "why",
            'deployments.apps "a" is forbidden: User "alice" cannot get resource "deployments/scale" in API group '
            '"apps" in the namespace "web": why',
        ),
    ],
)
async def test_denied_request_is_described(info: RequestInfo, reason: str, message: str) -> None:
    authorizer: Any = FixedAuthorizer(AuthorizationResult("no-opinion", reason))

    with pytest.raises(ApiError) as error:
        await Authorization(authorizer, RequestMetrics(), Identity()).authorize(User("alice"), info, None)

    assert error.value.message == message


class Recorder:
    """Audit context that records decisions."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def authorized(self, allowed: bool, reason: str) -> None:
        self.calls.append((allowed, reason))

    def authorization_failed(self) -> None:
        self.calls.append(("failed",))

    def impersonated(self, user: User) -> None:
        self.calls.append(("impersonated", user.name))


@pytest.mark.parametrize(
    ("decision", "calls"),
    [
        (AuthorizationResult("allow", "because"), [(True, "because")]),
        (AuthorizationResult("allow", error="partly"), [(True, "")]),
        (AuthorizationResult("no-opinion", "no"), [(False, "no")]),
        (AuthorizationResult("no-opinion", error="away"), [("failed",)]),
    ],
)
async def test_decision_is_audited(decision: AuthorizationResult, calls: list[Any]) -> None:
    authorizer, recorder = FixedAuthorizer(decision), Recorder()

    with suppress(ApiError, AuthorizationFailed):
        await Authorization(authorizer, RequestMetrics(), Identity()).authorize(  # type: ignore[arg-type]
            User("alice"),
            PODS,
            recorder,  # type: ignore[arg-type]
        )

    assert recorder.calls == calls


async def test_impersonated_user_is_audited() -> None:
    authorization = Authorization(FixedAuthorizer(ALLOW), RequestMetrics(), Identity())  # type: ignore[arg-type]
    for headers, user, calls in (
        ({}, "jane", []),
        ({"Impersonate-User": "alice"}, "alice", [(True, ""), ("impersonated", "alice")]),
    ):
        http: Any = SimpleNamespace(headers=headers, target="/api/v1/pods")
        recorder: Any = Recorder()
        found = await authorization.impersonate(User("jane"), http, PODS, recorder)
        assert (found.name, recorder.calls) == (user, calls)


async def test_groups_cannot_be_impersonated_without_a_user() -> None:
    authorization = Authorization(FixedAuthorizer(ALLOW), RequestMetrics(), Identity())  # type: ignore[arg-type]
    http: Any = SimpleNamespace(headers=CIMultiDict({"Impersonate-Group": "g"}), target="/api/v1/pods")

    with pytest.raises(PlainError) as error:
        await authorization.impersonate(User("jane"), http, PODS, None)
    assert error.value.code == 500
    assert error.value.message.endswith("without impersonating a user")
