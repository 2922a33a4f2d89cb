"""Tests for the authorization of requests and its metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import ALL, selected_objects
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authz import ALLOW, NO_OPINION, AuthorizationResult
from apiserver_stub.pipeline.authorization import Authorization, pinned
from apiserver_stub.pipeline.error_responses import AuthorizationFailed
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
