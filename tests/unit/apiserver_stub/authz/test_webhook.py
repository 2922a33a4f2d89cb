"""Tests for the authorization webhook: requests, responses, caching and match conditions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apiserver_stub import cel
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import selected_objects
from apiserver_stub.authz.webhook import WebhookAuthorizer, WebhookSettings
from apiserver_stub.cel.config_expression import ConfigExpression
from apiserver_stub.webhook import WebhookError
from nodeagent.base.aio import TaskOwner
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import to

USER = User("jane", "u1", ("dev", "ops"), {"scopes": ("a", "b")})
FAILED = 'an error on the server ("unknown") has prevented the request from succeeding'


class Service:
    """Webhook with configurable responses that records its requests."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.status: Any = {"allowed": True}
        self.response: Any = None
        self.gate: asyncio.Event | None = None

    async def post(self, body: Any) -> Any:
        self.requests.append(body)
        if self.gate is not None:
            await self.gate.wait()
        if self.status is None:
            raise WebhookError("answered 500")
        return self.response or {"kind": "SubjectAccessReview", "apiVersion": body["apiVersion"], "status": self.status}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    async with TaskOwner("test") as owner:
        yield owner


@pytest.mark.row("opt.authorization-webhook-config-file", "opt.authorization-webhook-version")
@pytest.mark.parametrize(("version", "groups"), [("v1", "groups"), ("v1beta1", "group")])
async def test_request_contains_the_attributes(service: Service, tasks: TaskOwner, version: str, groups: str) -> None:
    authorizer = WebhookAuthorizer(service, WebhookSettings(version), tasks, Identity())

    await authorizer.authorize(USER, to("get", "pods/log", "a", "p", group="g"))
    await authorizer.authorize(User("bob"), RequestInfo("get", "/metrics"))

    first, second = service.requests
    assert first == {
        "kind": "SubjectAccessReview",
        "apiVersion": f"authorization.k8s.io/{version}",
        "metadata": {"creationTimestamp": None},
        "spec": {
            "resourceAttributes": {
                "namespace": "a",
                "verb": "get",
                "group": "g",
                "version": "v1",
                "resource": "pods",
                "subresource": "log",
                "name": "p",
            },
            "user": "jane",
            groups: ["dev", "ops"],
            "extra": {"scopes": ["a", "b"]},
            "uid": "u1",
        },
        "status": {"allowed": False},
    }
    assert second["spec"] == {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}, "user": "bob"}


@pytest.mark.row("opt.authorization-webhook-config-file")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ({"allowed": True, "reason": "fine"}, ("allow", "fine", "")),
        ({"allowed": False, "reason": "not known"}, ("no-opinion", "not known", "")),
        ({"allowed": False, "denied": True, "reason": "no"}, ("deny", "no", "")),
        ({}, ("no-opinion", "", "")),
        (
            {"allowed": True, "denied": True},
            ("deny", "", "webhook subject access review returned both allow and deny response"),
        ),
        ({"allowed": "yes"}, ("no-opinion", "", FAILED)),
        ([], ("no-opinion", "", FAILED)),
        (None, ("no-opinion", "", FAILED)),
    ],
    ids=str,
)
async def test_response_is_converted_to_a_decision(
    service: Service, tasks: TaskOwner, status: Any, outcome: Any
) -> None:
    service.status = status

    assert (
        await WebhookAuthorizer(service, WebhookSettings(), tasks, Identity()).authorize(USER, to("get", "pods"))
        == outcome
    )


async def test_response_of_another_version_is_an_error(service: Service, tasks: TaskOwner) -> None:
    service.response = {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "status": {"allowed": True},
    }

    outcome = await WebhookAuthorizer(service, WebhookSettings("v1beta1"), tasks, Identity()).authorize(
        USER, to("get", "pods")
    )

    assert outcome == ("no-opinion", "", FAILED)


async def test_failure_denies_with_failure_policy_deny(service: Service, tasks: TaskOwner) -> None:
    service.status = None
    authorizer = WebhookAuthorizer(service, WebhookSettings(on_failure="deny"), tasks, Identity())

    assert await authorizer.authorize(USER, to("get", "pods")) == ("deny", "", FAILED)
    await authorizer.authorize(USER, to("get", "pods"))
    assert len(service.requests) == 2


@pytest.mark.row("opt.authorization-webhook-cache-authorized-ttl", "opt.authorization-webhook-cache-unauthorized-ttl")
@pytest.mark.parametrize(("allowed", "seconds"), [(True, 300), (False, 30)], ids=["authorized", "unauthorized"])
async def test_decisions_are_cached_for_their_ttl(
    service: Service, tasks: TaskOwner, clock: FakeClock, allowed: bool, seconds: int
) -> None:
    service.status = {"allowed": allowed}
    authorizer = WebhookAuthorizer(service, WebhookSettings(), tasks, clock=clock, identity=Identity())

    async def requests_after(wait: float) -> int:
        await clock.advance(wait)
        await authorizer.authorize(USER, to("get", "pods"))
        return len(service.requests)

    assert await requests_after(0) == 1
    assert await requests_after(seconds - 1) == 1
    assert await requests_after(2) == 2
    await authorizer.authorize(USER, to("get", "pods", name="other"))
    assert len(service.requests) == 3


@pytest.mark.row("opt.authorization-webhook-cache-authorized-ttl", "opt.authorization-webhook-cache-unauthorized-ttl")
@pytest.mark.parametrize("allowed", [True, False])
async def test_zero_ttl_disables_the_cache(service: Service, tasks: TaskOwner, allowed: bool) -> None:
    service.status = {"allowed": allowed}
    settings = WebhookSettings(authorized_seconds=0 if allowed else 9, unauthorized_seconds=9 if allowed else 0)
    authorizer = WebhookAuthorizer(service, settings, tasks, Identity())

    for _ in range(3):
        await authorizer.authorize(USER, to("get", "pods"))

    assert len(service.requests) == 3


async def test_cache_is_limited_in_size(service: Service, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver_stub.authz.webhook._CACHE_SIZE", 2)
    authorizer = WebhookAuthorizer(service, WebhookSettings(), tasks, Identity())

    long = "x" * 20_000
    for name in ("a", "b", "c", long, "b", "c", long, "a"):
        await authorizer.authorize(USER, to("get", "pods", name=name))

    names = [review["spec"]["resourceAttributes"]["name"] for review in service.requests]
    assert names == ["a", "b", "c", long, long, "a"]


async def test_concurrent_identical_requests_share_one_call(service: Service, tasks: TaskOwner) -> None:
    service.gate = asyncio.Event()
    authorizer = WebhookAuthorizer(service, WebhookSettings(authorized_seconds=0), tasks, Identity())
    waiting = [asyncio.ensure_future(authorizer.authorize(USER, to("get", "pods"))) for _ in range(5)]
    await asyncio.sleep(0)
    waiting.pop().cancel()  # cancelling one caller does not affect the others
    await asyncio.sleep(0)
    service.gate.set()

    assert all(outcome.allowed for outcome in await asyncio.gather(*waiting))
    assert len(service.requests) == 1


@pytest.mark.row("opt.authorization-config")
@pytest.mark.parametrize(
    ("texts", "requested", "outcome"),
    [
        (["request.user == 'jane'"], 1, ("allow", "", "")),
        (["request.user == 'jane'", "request.resourceAttributes.namespace == 'b'"], 0, ("no-opinion", "", "")),
        (["has(request.nonResourceAttributes)"], 0, ("no-opinion", "", "")),
        (["'ops' in request.groups && request.extra['scopes'].exists(s, s == 'b')"], 1, ("allow", "", "")),
        (["request.resourceAttributes.subresource == ''"], 1, ("allow", "", "")),
        (["request.nope == 'x'", "request.user == 'bob'"], 0, ("no-opinion", "", "")),
    ],
)
async def test_match_conditions_select_requests(
    service: Service, tasks: TaskOwner, texts: list[str], requested: int, outcome: Any
) -> None:
    conditions = tuple(ConfigExpression(text, ("request",), cel.BOOL) for text in texts)
    authorizer = WebhookAuthorizer(
        service, WebhookSettings(on_failure="deny", conditions=conditions), tasks, Identity()
    )

    assert await authorizer.authorize(USER, to("get", "pods", "a")) == outcome
    assert len(service.requests) == requested


async def test_match_condition_error_is_a_failure(service: Service, tasks: TaskOwner) -> None:
    conditions = (ConfigExpression("request.nope == 'x'", ("request",), cel.BOOL),)
    authorizer = WebhookAuthorizer(
        service, WebhookSettings(on_failure="deny", conditions=conditions), tasks, Identity()
    )

    outcome = await authorizer.authorize(USER, to("get", "pods"))

    assert outcome.decision == "deny"
    assert "nope" in outcome.error
    assert not service.requests


def test_rules_are_reported_as_incomplete(service: Service, tasks: TaskOwner) -> None:
    rules = WebhookAuthorizer(service, WebhookSettings(), tasks, Identity()).rules(USER, "a")

    assert rules.incomplete
    assert rules.errors == ["webhook authorizer does not support user rule resolution"]


async def test_request_contains_the_selected_objects(service: Service, tasks: TaskOwner) -> None:
    condition = "request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'app')"
    settings = WebhookSettings("v1", conditions=(ConfigExpression(condition, ("request",), cel.BOOL),))
    authorizer = WebhookAuthorizer(service, settings, tasks, Identity())

    for labels in ("app=a", "other=a", "app=b"):
        info = RequestInfo("list", "/", "", "v1", "pods", selected=selected_objects("spec.nodeName=n", labels))
        await authorizer.authorize(USER, info)

    assert [item["spec"]["resourceAttributes"]["labelSelector"]["requirements"] for item in service.requests] == [
        [{"key": "app", "operator": "In", "values": [value]}] for value in ("a", "b")
    ]
    assert all("fieldSelector" in item["spec"]["resourceAttributes"] for item in service.requests)
