"""Tests for the authorization of requests and its metrics."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authz import ALLOW, NO_OPINION, AuthorizationResult
from apiserver_stub.pipeline.authorization import Authorization
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


async def test_denied_request_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    authorizer = FixedAuthorizer(AuthorizationResult("no-opinion", "RBAC: no rule"))
    authorization = Authorization(authorizer, RequestMetrics(), Identity())  # type: ignore[arg-type]

    with pytest.raises(ApiError):
        await authorization.authorize(User("alice"), PODS, None)

    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["URI"]) == ("Forbidden", "/api/v1/pods")
    assert vars(record)["reason"] == "RBAC: no rule"
