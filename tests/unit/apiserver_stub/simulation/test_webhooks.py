"""Tests for the simulated server of webhooks: its reactions by behavior, and the reviews that it records."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.services import Call, Reply
from apiserver_stub.simulation.webhooks import (
    BEHAVIORS,
    BROAD,
    CONVERSION,
    MUTATING,
    NONCE,
    WebhookServer,
    mutation,
)
from tests.unit.apiserver_stub.simulation.stored import Stored

CHECK = "validating-0"
NEW = {"metadata": {"uid": "u"}, "data": {NONCE: "n1"}}
GADGETS = [{"apiVersion": "simulated.test/v1", "metadata": {"name": "a"}, "spec": {"first": 7}}]


class Harness:
    def __init__(self, seed: int = 1) -> None:
        self.now = 0.0
        trace: Any = Stored().trace
        self.server = WebhookServer(seed, trace, lambda: self.now)

    def review(self, webhook: str, new: Any = NEW, old: Any = None, operation: str = "CREATE") -> Reply:
        request = {"uid": "r", "name": "a", "operation": operation, "object": new, "oldObject": old}
        return self.call(webhook, "admission.k8s.io/v1", request)

    def convert(self, version: str = "simulated.test/v2") -> Reply:
        request = {"uid": "r", "desiredAPIVersion": version, "objects": GADGETS}
        return self.call(CONVERSION, "apiextensions.k8s.io/v1", request)

    def call(self, webhook: str, version: str, request: Any) -> Reply:
        body = msgspec.json.encode({"apiVersion": version, "request": request})
        return self.server.respond(Call(f"/path/{webhook}", "timeout=10s", body, self.now))

    def outcomes(self, identity: str = "n1") -> list[str]:
        return [each.outcome for each in self.server.reviews.get(identity, ())]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def response(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(reply.data.partition(b"\r\n\r\n")[2])["response"]
    return found


def deliver(reply: Reply) -> None:
    assert reply.delivered is not None
    reply.delivered()


def test_webhook_is_healthy_since_its_last_change(harness: Harness) -> None:
    harness.now = 5.0
    harness.server.set_behavior(CHECK, "healthy")
    assert harness.server.healthy_since(CHECK, 0.0), "the behavior is the same"

    harness.server.set_behavior(CHECK, "slow")
    assert not harness.server.healthy_since(CHECK, 9.0)

    harness.server.set_behavior(CHECK, "healthy")
    assert [harness.server.healthy_since(CHECK, time) for time in (4.0, 5.0, 6.0)] == [False, True, True]


@pytest.mark.parametrize(
    ("behavior", "accepts"), [("healthy", True), ("hang", True), ("refuse", False), ("unreachable", None)]
)
def test_connections_are_accepted_by_behavior(harness: Harness, behavior: str, accepts: bool | None) -> None:
    harness.server.set_behavior(CHECK, behavior)

    by_host = harness.server.find(f"{CHECK}.simulated.test", 443)
    by_service = harness.server.find("10.0.0.1", 443)

    assert by_host is not None
    assert by_service is not None
    assert (by_host.accepts(), by_service.accepts()) == (accepts, True)


@pytest.mark.parametrize(
    ("behavior", "has_data", "closes"),
    [
        ("healthy", True, False),
        ("reject", True, False),
        ("slow", True, False),
        ("hang", False, False),
        ("unreachable", False, False),
        ("reset", False, True),
        ("refuse", False, True),
    ],
)
@pytest.mark.parametrize("webhook", [CHECK, CONVERSION])
def test_reaction_depends_on_the_behavior(
    harness: Harness, webhook: str, behavior: str, has_data: bool, closes: bool
) -> None:
    harness.server.set_behavior(webhook, behavior)

    reply = harness.convert() if webhook == CONVERSION else harness.review(webhook)

    assert (bool(reply.data), reply.closes) == (has_data, closes)
    assert (reply.seconds > 0) is (behavior == "slow")


@pytest.mark.parametrize(("behavior", "outcome"), [("healthy", "allowed"), ("reject", "denied")])
@pytest.mark.parametrize(("seconds", "in_time"), [(9.9, True), (10.0, False)])
def test_decision_counts_if_it_is_delivered_in_time(
    harness: Harness, behavior: str, outcome: str, seconds: float, in_time: bool
) -> None:
    harness.server.set_behavior(CHECK, behavior)
    reply = harness.review(CHECK)
    assert harness.outcomes() == ["failed"], "it was not delivered"

    harness.now = seconds
    deliver(reply)

    assert harness.outcomes() == [outcome if in_time else "failed"]
    assert response(reply)["allowed"] is (outcome == "allowed")
    assert ("status" in response(reply)) is (outcome == "denied")


def test_reviews_are_identified_by_nonce_or_by_the_uid_of_a_deleted_object(harness: Harness) -> None:
    harness.review(CHECK)
    harness.review(CHECK, None, {"metadata": {"uid": "u"}}, "DELETE")
    harness.review(BROAD, {"metadata": {}})

    assert {identity: len(found) for identity, found in harness.server.reviews.items()} == {"n1": 1, "u": 1}


@pytest.mark.parametrize(
    ("webhook", "deleted", "behavior", "patched"),
    [
        (MUTATING[0], False, "healthy", True),
        (MUTATING[0], True, "healthy", False),
        (MUTATING[0], False, "reject", False),
        (CHECK, False, "healthy", False),
    ],
)
def test_mutating_webhooks_patch_new_objects(
    harness: Harness, webhook: str, deleted: bool, behavior: str, patched: bool
) -> None:
    harness.server.set_behavior(webhook, behavior)

    reply = harness.review(webhook, None, NEW) if deleted else harness.review(webhook)

    text = response(reply).get("patch", "")
    assert bool(text) is patched
    if patched:
        assert msgspec.json.decode(base64.b64decode(text)) == mutation(webhook, NEW)


@pytest.mark.parametrize(
    ("webhook", "data", "after"),
    [
        (MUTATING[0], {}, ""),
        (MUTATING[0], {MUTATING[0]: "n1"}, ""),
        (MUTATING[0], {MUTATING[1]: "n1"}, MUTATING[1]),
        (MUTATING[0], {MUTATING[1]: "n0"}, ""),
        (MUTATING[1], {MUTATING[0]: "n1", MUTATING[1]: "n1"}, MUTATING[0]),
    ],
)
def test_patch_records_the_webhooks_that_were_called_before(webhook: str, data: dict[str, str], after: str) -> None:
    assert mutation(webhook, {"data": {NONCE: "n1", **data}}) == [
        {"op": "add", "path": f"/data/{webhook}", "value": "n1"},
        {"op": "add", "path": f"/data/{webhook}.after", "value": after},
    ]


@pytest.mark.parametrize(("version", "spec"), [("v1", {"first": 7}), ("v2", {"second": 7})])
def test_conversion_moves_the_value_to_the_field_of_the_version(
    harness: Harness, version: str, spec: dict[str, int]
) -> None:
    found = response(harness.convert(f"simulated.test/{version}"))

    assert found == {
        "uid": "r",
        "result": {"status": "Success"},
        "convertedObjects": [{**GADGETS[0], "apiVersion": f"simulated.test/{version}", "spec": spec}],
    }


def test_rejected_conversion_fails(harness: Harness) -> None:
    harness.server.set_behavior(CONVERSION, "reject")

    assert response(harness.convert())["result"] == {"status": "Failure", "message": "rejected"}


@pytest.mark.parametrize("seed", range(20))
def test_garbage_of_a_conversion_is_not_the_correct_result(seed: int) -> None:
    harness = Harness(seed)
    expected = response(harness.convert())
    harness.server.set_behavior(CONVERSION, "garbage")

    assert response(harness.convert())["convertedObjects"] != expected["convertedObjects"]


@pytest.mark.parametrize("webhook", [CHECK, MUTATING[0]])
def test_garbage_is_never_recorded_as_a_decision(webhook: str) -> None:
    harness, replies = Harness(), []
    harness.server.set_behavior(webhook, "garbage")
    for _ in range(300):
        replies.append(harness.review(webhook))

    assert {reply.delivered for reply in replies} == {None}
    assert set(harness.outcomes()) == {"failed"}
    assert {reply.closes for reply in replies} == {True, False}
    invalid_patch = base64.b64encode(b"[7]")
    assert any(invalid_patch in reply.data for reply in replies) is (webhook in MUTATING)
    statuses = {reply.data[:12] for reply in replies if not reply.closes}
    assert {b"HTTP/1.1 200", b"HTTP/1.1 302", b"HTTP/1.1 500"} <= statuses


def test_all_webhooks_can_be_healed(harness: Harness) -> None:
    for name, behavior in zip((CHECK, *MUTATING, BROAD, CONVERSION), BEHAVIORS[1:], strict=False):
        harness.server.set_behavior(name, behavior)

    harness.server.heal()

    assert all(harness.server.healthy_since(name, 0.0) for name in (CHECK, *MUTATING, BROAD, CONVERSION))


def test_some_responses_have_warnings_and_annotations(harness: Harness) -> None:
    count = sum("warnings" in response(harness.review(CHECK)) for _ in range(200))

    assert 10 < count < 90
