"""A service decides: what it is asked, how its answers are read, and how long they are good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apiserver_stub import cel
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz.webhook import WebhookAuthorizer, WebhookSettings
from apiserver_stub.cel import Expression
from apiserver_stub.webhook import WebhookError
from nodeagent.base.aio import TaskOwner
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import to

USER = User("jane", "u1", ("dev", "ops"), {"scopes": ("a", "b")})
FAILED = 'an error on the server ("unknown") has prevented the request from succeeding'


class Service:
    """Notes what it is asked and says what it is told to say."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.status: Any = {"allowed": True}
        self.answer: Any = None
        self.gate: asyncio.Event | None = None

    async def post(self, body: Any) -> Any:
        self.asked.append(body)
        if self.gate is not None:
            await self.gate.wait()
        if self.status is None:
            raise WebhookError("answered 500")
        return self.answer or {"kind": "SubjectAccessReview", "apiVersion": body["apiVersion"], "status": self.status}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    async with TaskOwner("test") as owner:
        yield owner


@pytest.mark.row("opt.authorization-webhook-config-file", "opt.authorization-webhook-version")
@pytest.mark.parametrize(("version", "groups"), [("v1", "groups"), ("v1beta1", "group")])
async def test_what_the_service_is_asked(service: Service, tasks: TaskOwner, version: str, groups: str) -> None:
    authorizer = WebhookAuthorizer(service, WebhookSettings(version), tasks)

    await authorizer.authorize(USER, to("get", "pods/log", "a", "p", group="g"))
    await authorizer.authorize(User("bob"), RequestInfo("get", "/metrics"))

    first, second = service.asked
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
    ("status", "verdict"),
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
async def test_how_answers_are_read(service: Service, tasks: TaskOwner, status: Any, verdict: Any) -> None:
    service.status = status

    assert await WebhookAuthorizer(service, WebhookSettings(), tasks).authorize(USER, to("get", "pods")) == verdict


async def test_an_answer_of_another_version_is_none(service: Service, tasks: TaskOwner) -> None:
    service.answer = {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "status": {"allowed": True},
    }

    verdict = await WebhookAuthorizer(service, WebhookSettings("v1beta1"), tasks).authorize(USER, to("get", "pods"))

    assert verdict == ("no-opinion", "", FAILED)


async def test_a_failure_denies_where_that_is_asked_for(service: Service, tasks: TaskOwner) -> None:
    service.status = None
    authorizer = WebhookAuthorizer(service, WebhookSettings(on_failure="deny"), tasks)

    assert await authorizer.authorize(USER, to("get", "pods")) == ("deny", "", FAILED)
    await authorizer.authorize(USER, to("get", "pods"))
    assert len(service.asked) == 2


@pytest.mark.row("opt.authorization-webhook-cache-authorized-ttl", "opt.authorization-webhook-cache-unauthorized-ttl")
@pytest.mark.parametrize(("allowed", "seconds"), [(True, 300), (False, 30)], ids=["authorized", "unauthorized"])
async def test_answers_are_good_for_their_time(
    service: Service, tasks: TaskOwner, clock: FakeClock, allowed: bool, seconds: int
) -> None:
    service.status = {"allowed": allowed}
    authorizer = WebhookAuthorizer(service, WebhookSettings(), tasks, clock=clock)

    async def asked_after(wait: float) -> int:
        await clock.advance(wait)
        await authorizer.authorize(USER, to("get", "pods"))
        return len(service.asked)

    assert await asked_after(0) == 1
    assert await asked_after(seconds - 1) == 1
    assert await asked_after(2) == 2
    await authorizer.authorize(USER, to("get", "pods", name="other"))
    assert len(service.asked) == 3


@pytest.mark.row("opt.authorization-webhook-cache-authorized-ttl", "opt.authorization-webhook-cache-unauthorized-ttl")
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_time_of_zero_remembers_nothing(service: Service, tasks: TaskOwner, allowed: bool) -> None:
    service.status = {"allowed": allowed}
    settings = WebhookSettings(authorized_seconds=0 if allowed else 9, unauthorized_seconds=9 if allowed else 0)
    authorizer = WebhookAuthorizer(service, settings, tasks)

    for _ in range(3):
        await authorizer.authorize(USER, to("get", "pods"))

    assert len(service.asked) == 3


async def test_what_is_remembered_has_bounds(
    service: Service, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver_stub.authz.webhook._CACHE_SIZE", 2)
    authorizer = WebhookAuthorizer(service, WebhookSettings(), tasks)

    long = "x" * 20_000
    for name in ("a", "b", "c", long, "b", "c", long, "a"):
        await authorizer.authorize(USER, to("get", "pods", name=name))

    names = [review["spec"]["resourceAttributes"]["name"] for review in service.asked]
    assert names == ["a", "b", "c", long, long, "a"]


async def test_the_same_question_is_asked_once_at_a_time(service: Service, tasks: TaskOwner) -> None:
    service.gate = asyncio.Event()
    authorizer = WebhookAuthorizer(service, WebhookSettings(authorized_seconds=0), tasks)
    waiting = [asyncio.ensure_future(authorizer.authorize(USER, to("get", "pods"))) for _ in range(5)]
    await asyncio.sleep(0)
    waiting.pop().cancel()  # a caller who leaves takes the answer from nobody
    await asyncio.sleep(0)
    service.gate.set()

    assert all(verdict.allowed for verdict in await asyncio.gather(*waiting))
    assert len(service.asked) == 1


@pytest.mark.row("opt.authorization-config")
@pytest.mark.parametrize(
    ("texts", "asked", "verdict"),
    [
        (["request.user == 'jane'"], 1, ("allow", "", "")),
        (["request.user == 'jane'", "request.resourceAttributes.namespace == 'b'"], 0, ("no-opinion", "", "")),
        (["has(request.nonResourceAttributes)"], 0, ("no-opinion", "", "")),
        (["'ops' in request.groups && request.extra['scopes'].exists(s, s == 'b')"], 1, ("allow", "", "")),
        (["request.resourceAttributes.subresource == ''"], 1, ("allow", "", "")),
        (["request.nope == 'x'", "request.user == 'bob'"], 0, ("no-opinion", "", "")),
    ],
)
async def test_conditions_say_when_the_service_is_asked(
    service: Service, tasks: TaskOwner, texts: list[str], asked: int, verdict: Any
) -> None:
    conditions = tuple(Expression(text, ("request",), cel.BOOL) for text in texts)
    authorizer = WebhookAuthorizer(service, WebhookSettings(on_failure="deny", conditions=conditions), tasks)

    assert await authorizer.authorize(USER, to("get", "pods", "a")) == verdict
    assert len(service.asked) == asked


async def test_a_condition_without_a_value_is_a_failure(service: Service, tasks: TaskOwner) -> None:
    conditions = (Expression("request.nope == 'x'", ("request",), cel.BOOL),)
    authorizer = WebhookAuthorizer(service, WebhookSettings(on_failure="deny", conditions=conditions), tasks)

    verdict = await authorizer.authorize(USER, to("get", "pods"))

    assert verdict.decision == "deny"
    assert "nope" in verdict.error
    assert not service.asked


def test_its_rules_are_not_known(service: Service, tasks: TaskOwner) -> None:
    rules = WebhookAuthorizer(service, WebhookSettings(), tasks).rules(USER, "a")

    assert rules.incomplete
    assert rules.errors == ["webhook authorizer does not support user rule resolution"]
