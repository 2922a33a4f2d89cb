"""Tests for requests of simulated clients that webhooks review: unexpected responses are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.admission import INVALID, REVIEWED, label
from apiserver_stub.simulation.admission_requests import AdmissionRequests
from apiserver_stub.simulation.client import Lost, Response
from apiserver_stub.simulation.webhooks import BROAD, MUTATING, NAMES, NONCE
from tests.unit.apiserver_stub.simulation.reviewed import Harness

CHECK = "validating-0"
MAPS = "/api/v1/namespaces/ns/configmaps"
PATH = f"{MAPS}/reviewed-0"
GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"


class Client:
    """Responds with :attr:`codes`, :attr:`message` or an error, after :attr:`during`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        self.codes, self.message, self.error = [201], "", ""
        self.data: dict[str, str] = {}
        self.during: Callable[[], None] = lambda: None

    async def send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Response:
        self.sent.append((method, path, body))
        self.during()
        if self.error:
            raise Lost(self.error)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if code >= 400:
            return Response(code, {}, msgspec.json.encode({"message": self.message}))
        return Response(code, {}, msgspec.json.encode({**(body or {}), "data": {NONCE: "n1", **self.data}}))


class Steps(Harness):
    def __init__(self) -> None:
        super().__init__()
        self.client = Client()
        stored = self.stored
        requests: Any = self.client
        self.requests = AdmissionRequests(
            requests,
            stored.invariants,
            self.reviewed,
            stored.violations,
            self.server,
            lambda: stored.now,
            lambda: self.calm or None,
        )

    def put(self, method: str = "POST", webhooks: tuple[str, ...] = (), *, dry_run: bool = False) -> str:
        """Write a reviewed config map and return the first violation."""
        asyncio.run(self.requests.write_reviewed("ns", "reviewed-0", method, webhooks, dry_run))
        return self.stored.violation

    def fail(self, message: str) -> str:
        self.client.codes, self.client.message = [500], message
        return self.put()

    def wait(self, seconds: float) -> None:
        """Add some time to each request."""

        def during() -> None:
            self.stored.now += seconds

        self.client.during = during


@pytest.fixture
def steps() -> Steps:
    return Steps()


def named(webhook: str, text: str) -> str:
    return text.format(f'webhook "{webhook}.simulated.test"')


DENIED = named(CHECK, "admission {} denied the request: rejected")
FAILED = named(CHECK, "failed calling {}: timeout")
PATCH = named(MUTATING[0], "the patch of {} is invalid")
CONDITION = named(CHECK, "{} failed: match condition")


# --- reviewed config maps


@pytest.mark.parametrize(
    ("method", "sent", "path"),
    [
        ("POST", "POST", MAPS),
        ("PUT", "PUT", PATH),
        ("PATCH", "PATCH", PATH),
        ("APPLY", "PATCH", f"{PATH}?fieldManager=simulated&force=true"),
    ],
)
def test_labels_of_a_reviewed_map_select_its_webhooks(steps: Steps, method: str, sent: str, path: str) -> None:
    assert steps.put(method, (CHECK,)) == ""

    ((requested, where, body),) = steps.client.sent
    removed = {label(each): None for each in NAMES if each != CHECK} if method == "PATCH" else {}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"} if method == "APPLY" else {}
    metadata = {"name": "reviewed-0", "labels": {REVIEWED: "true", label(CHECK): "true", **removed}}
    assert (requested, where, body) == (sent, path, {**kind, "metadata": metadata, "data": {NONCE: "n1"}})


@pytest.mark.parametrize(("dry_run", "reported"), [(True, True), (False, False)])
def test_response_to_a_dry_run_must_be_reviewed(steps: Steps, dry_run: bool, reported: bool) -> None:
    steps.configure(CHECK)

    found = steps.put(dry_run=dry_run)

    query = "?dryRun=All"
    assert found == (f"POST {MAPS}{query} was written without a review by {CHECK}" if reported else "")


@pytest.mark.parametrize("seconds", [16.0, 16.5])
@pytest.mark.parametrize("calm", [True, False])
def test_write_takes_no_longer_than_its_webhooks(steps: Steps, seconds: float, calm: bool) -> None:
    steps.calm = calm
    steps.wait(seconds)

    assert steps.put() == (f"POST {MAPS} took 16.5 s" if calm and seconds > 16 else "")


def test_webhooks_delay_a_write_up_to_the_limit_of_requests(steps: Steps) -> None:
    steps.configure(CHECK, timeoutSeconds=20)
    steps.wait(36.0)
    assert steps.put() == ""
    for webhook in NAMES:
        steps.configure(webhook, timeoutSeconds=30)
    steps.wait(66.0)
    assert steps.put() == ""

    steps.wait(66.5)

    assert steps.put() == f"POST {MAPS} took 66.5 s"


def test_fault_during_a_write_excuses_its_duration(steps: Steps) -> None:
    def during() -> None:
        steps.stored.now += 100.0
        steps.calm = 2

    steps.client.during = during

    assert steps.put() == ""


@pytest.mark.parametrize(
    ("outcome", "webhook", "reported"),
    [("denied", CHECK, False), ("allowed", CHECK, True), ("denied", "validating-1", True), ("", CHECK, True)],
)
def test_denial_needs_a_webhook_that_denied(steps: Steps, outcome: str, webhook: str, reported: bool) -> None:
    if outcome:
        steps.review(webhook, outcome)

    expected = f"POST {MAPS} was denied by {CHECK}, which did not: {DENIED}"
    assert steps.fail(DENIED) == (expected if reported else "")


@pytest.mark.parametrize(
    ("policy", "behavior", "calm", "expected"),
    [
        ("Ignore", "healthy", True, f"whose failures are ignored: {FAILED}"),
        ("Fail", "healthy", True, f"which responds: {FAILED}"),
        ("Fail", "hang", True, ""),
        ("Fail", "healthy", False, ""),
    ],
)
def test_failure_of_a_webhook_needs_a_reason(
    steps: Steps, policy: str, behavior: str, calm: bool, expected: str
) -> None:
    steps.configure(CHECK, policy)
    steps.stored.now, steps.calm = 1.0, calm
    steps.server.set_behavior(CHECK, behavior)
    steps.stored.now = 2.0

    found = steps.fail(FAILED)

    assert found == (f"POST {MAPS} failed because of {CHECK}, {expected}" if expected else "")


def test_fault_during_a_write_excuses_the_failure_of_a_webhook(steps: Steps) -> None:
    steps.configure(CHECK)

    def during() -> None:
        steps.calm = 2

    steps.client.during = during

    assert steps.fail(FAILED) == ""


@pytest.mark.parametrize("behavior", ["healthy", "garbage"])
def test_patch_of_a_healthy_webhook_is_valid(steps: Steps, behavior: str) -> None:
    steps.server.set_behavior(MUTATING[0], behavior)

    expected = f"POST {MAPS} failed because of the valid patch of {MUTATING[0]}: {PATCH}"
    assert steps.fail(PATCH) == (expected if behavior == "healthy" else "")


@pytest.mark.parametrize(
    ("name", "message", "reported"),
    [
        (INVALID, CONDITION, False),
        ("labeled", CONDITION, True),
        (INVALID, named(CHECK, "{} is unknown"), True),
        ("labeled", "the webhook is not named", False),
    ],
)
def test_other_errors_are_those_of_invalid_conditions(steps: Steps, name: str, message: str, reported: bool) -> None:
    steps.configure(CHECK, matchConditions=[{"name": name}])

    assert steps.fail(message) == (f"POST {MAPS} failed with 500: {message}" if reported else "")


@pytest.mark.parametrize(
    ("error", "calm", "after", "reported"),
    [("timeout", 1, 1, True), ("closed", 1, 1, False), ("timeout", 1, 2, False), ("timeout", None, None, False)],
)
def test_request_without_a_response_needs_a_fault(
    steps: Steps, error: str, calm: object, after: object, reported: bool
) -> None:
    def during() -> None:
        steps.calm = after

    steps.calm, steps.client.error, steps.client.during = calm, error, during
    with pytest.raises(Lost):
        steps.put()

    assert steps.stored.violation == (f"POST {MAPS} received no response" if reported else "")


@pytest.mark.parametrize(
    ("seconds", "calm", "reported"), [(66.5, True, True), (66.0, True, False), (66.5, False, False)]
)
def test_deletion_takes_no_longer_than_a_request(steps: Steps, seconds: float, calm: bool, reported: bool) -> None:
    steps.calm = calm
    steps.wait(seconds)
    steps.write()

    asyncio.run(steps.requests.delete_reviewed("ns", "reviewed-0"))
    steps.stored.delete("core/configmaps", "ns/reviewed-0")

    assert steps.stored.violation == (f"DELETE {PATH} took 66.5 s" if reported else "")


# --- configurations


def applied(steps: Steps, webhook: str, match: str = "all", **changes: bool) -> dict[str, Any]:
    options = {"deletes": False, "again": False, "service": False, **changes}
    asyncio.run(steps.requests.apply_webhook(webhook, "Fail", 10, match, **options))
    body = steps.client.sent[-1][2]
    assert body["metadata"] == {"name": webhook}
    (found,) = body["webhooks"]
    return dict(found)


def test_new_configuration_replaces_an_existing_one(steps: Steps) -> None:
    steps.client.codes = [409, 200]
    applied(steps, CHECK)

    assert [sent[:2] for sent in steps.client.sent] == [("POST", VALIDATING), ("PUT", f"{VALIDATING}/{CHECK}")]
    assert steps.client.sent[0][2]["kind"] == "ValidatingWebhookConfiguration"

    applied(steps, MUTATING[0])
    assert steps.client.sent[2][:2] == ("POST", f"{GROUP}/mutatingwebhookconfigurations")
    assert steps.client.sent[2][2]["kind"] == "MutatingWebhookConfiguration"
    assert len(steps.client.sent) == 3


@pytest.mark.parametrize("deletes", [True, False])
def test_webhook_reviews_deletions_if_requested(steps: Steps, deletes: bool) -> None:
    (rule,) = applied(steps, CHECK, deletes=deletes)["rules"]

    assert rule["operations"] == (["CREATE", "UPDATE", "DELETE"] if deletes else ["CREATE", "UPDATE"])


@pytest.mark.parametrize(
    ("match", "conditions", "selected"),
    [("all", [], False), ("selector", [], True), ("condition", ["labeled"], False), (INVALID, [INVALID], False)],
)
def test_webhook_is_selected_by_label_or_condition(
    steps: Steps, match: str, conditions: list[str], selected: bool
) -> None:
    spec = applied(steps, CHECK, match)

    assert [each["name"] for each in spec.get("matchConditions", ())] == conditions
    labels = {REVIEWED: "true", **({label(CHECK): "true"} if selected else {})}
    assert spec["objectSelector"] == {"matchLabels": labels}


@pytest.mark.parametrize(
    ("webhook", "again", "policy"), [(MUTATING[0], True, "IfNeeded"), (MUTATING[0], False, None), (CHECK, True, None)]
)
def test_only_mutating_webhooks_are_called_again(steps: Steps, webhook: str, again: bool, policy: str | None) -> None:
    assert applied(steps, webhook, again=again).get("reinvocationPolicy") == policy


@pytest.mark.parametrize("service", [True, False])
def test_webhook_of_a_service_creates_the_service(steps: Steps, service: bool) -> None:
    config = applied(steps, CHECK, service=service)["clientConfig"]

    services = "/api/v1/namespaces/default/services"
    assert (steps.client.sent[0][1] == services) is service
    assert ("service" in config, "url" in config) == (service, not service)

    asyncio.run(steps.requests.delete_webhook(CHECK, service))
    assert steps.client.sent[-1][:2] == ("DELETE", f"{services}/webhooks" if service else f"{VALIDATING}/{CHECK}")


def test_broad_webhook_fails_for_some_time(steps: Steps) -> None:
    async def scenario() -> list[bool]:
        applying = asyncio.ensure_future(steps.requests.apply_broad_webhook("*", "Fail", 5, "hang", 0.0))
        await asyncio.sleep(0)
        during = steps.server.healthy_since(BROAD, 0.0)
        await applying
        return [during, steps.server.healthy_since(BROAD, 0.0)]

    assert asyncio.run(scenario()) == [False, True]
    assert steps.client.sent[0][:2] == ("POST", VALIDATING)


def test_all_webhooks_respond_after_the_faults(steps: Steps) -> None:
    steps.requests.set_webhook(CHECK, "hang")
    assert not steps.server.healthy_since(CHECK, 9.0)
    steps.stored.now = 5.0

    steps.requests.calm()

    assert [steps.server.healthy_since(CHECK, time) for time in (4.0, 5.0, 6.0)] == [False, True, True]
    assert steps.server.healthy_since("validating-1", 0.0), "it was healthy before"
