"""Tests for the invariants of webhooks: each violation is reported, permitted writes are not."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.simulation.admission import INVALID, REVIEWED, label
from apiserver_stub.simulation.collections import CONFIG_MAPS, SERVICES
from apiserver_stub.simulation.webhooks import BROAD, MUTATING, NONCE
from tests.unit.apiserver_stub.simulation.reviewed import KEY, Harness

FIRST, SECOND = MUTATING
CHECK = "validating-0"
WRITTEN = f"{CONFIG_MAPS} {KEY} at"


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_write_without_a_required_review_is_a_violation(harness: Harness) -> None:
    harness.configure(CHECK)
    harness.begin()
    harness.review(CHECK, "failed")

    assert harness.write() == f"{WRITTEN} 3 was written without a review by {CHECK}"


def test_reviewed_write_is_permitted(harness: Harness) -> None:
    harness.configure(CHECK)
    harness.begin()
    harness.review(CHECK)

    assert harness.write() == ""


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_write_after_a_denial_is_a_violation(harness: Harness, policy: str) -> None:
    harness.configure(CHECK, policy)
    harness.begin()
    harness.review(CHECK, "denied")
    harness.review(CHECK)

    assert harness.write() == f"{WRITTEN} 3 was written, although {CHECK} denied it"


def test_ignored_failure_is_permitted_unless_the_webhook_works(harness: Harness) -> None:
    harness.configure(CHECK, "Ignore")
    harness.server.set_behavior(CHECK, "hang")
    harness.begin()
    assert harness.write() == ""

    harness.server.set_behavior(CHECK, "healthy")
    harness.begin("n2")
    assert harness.write("n2") == f"{WRITTEN} 4 was written without a review by {CHECK}"


def test_configuration_that_changes_during_the_request_is_not_required(harness: Harness) -> None:
    harness.begin()
    harness.configure(CHECK)

    assert harness.write() == ""


def test_write_without_a_patch_is_a_violation(harness: Harness) -> None:
    harness.configure(FIRST)
    harness.begin()
    harness.review(FIRST)

    assert harness.write(**{FIRST: "n0"}) == f"{WRITTEN} 3 was written without the patch of {FIRST}"


def test_webhook_must_be_called_again_after_a_later_change(harness: Harness) -> None:
    harness.configure(FIRST, reinvocationPolicy="IfNeeded")
    harness.configure(SECOND)
    for nonce in ("n1", "n2"):
        harness.begin(nonce)
        harness.review(FIRST, identity=nonce)
        harness.review(SECOND, identity=nonce)
    assert harness.write(**{FIRST: "n1", SECOND: "n1", f"{FIRST}.after": SECOND}) == ""

    found = harness.write("n2", **{FIRST: "n2", SECOND: "n2", f"{FIRST}.after": ""})
    assert found == f"{WRITTEN} 5 was written without another call of {FIRST} after {SECOND}"


def test_write_of_a_dry_run_is_a_violation(harness: Harness) -> None:
    harness.begin(dry_run=True)

    assert harness.write() == f"{WRITTEN} 2 was written by a dry run"


def test_selectors_and_conditions_select_the_webhook(harness: Harness) -> None:
    harness.configure(CHECK, objectSelector={"matchLabels": {REVIEWED: "true", label(CHECK): "true"}})
    harness.configure(FIRST, matchConditions=[{"name": "labeled"}])
    harness.configure(SECOND, "Ignore", matchConditions=[{"name": INVALID}])
    harness.begin()
    assert harness.write() == ""

    harness.begin("n2")
    assert harness.write("n2", {label(CHECK): "true"}).endswith(f"without a review by {CHECK}")


def test_invalid_condition_rejects_all_writes(harness: Harness) -> None:
    harness.configure(CHECK, matchConditions=[{"name": INVALID}])
    harness.begin()

    assert harness.write().endswith(f"without a review by {CHECK}")


def test_deletion_without_a_required_review_is_a_violation(harness: Harness) -> None:
    harness.write()
    harness.configure(CHECK)
    harness.stored.invariants.request_deletion(KEY)
    harness.stored.now = 599.0
    harness.stored.delete(CONFIG_MAPS, KEY)
    assert harness.stored.violation == "", "the request may have been admitted before"

    harness.write("n2")
    harness.stored.now = 601.0
    harness.stored.invariants.request_deletion(KEY)
    harness.review(CHECK, identity=KEY)
    harness.stored.delete(CONFIG_MAPS, KEY)
    assert harness.stored.violation == ""

    harness.server.reviews.clear()
    harness.write("n3")
    harness.stored.delete(CONFIG_MAPS, KEY)
    assert harness.stored.violation == f"{CONFIG_MAPS} {KEY} was deleted without a review by {CHECK} at 8"


SERVICE = {"clientConfig": {"service": {"name": "webhooks"}}}


@pytest.mark.parametrize(
    ("fields", "service", "required"),
    [
        ({}, "", True),
        ({"timeoutSeconds": 9}, "", False),
        (SERVICE, "", False),
        (SERVICE, "before", True),
        (SERVICE, "during", False),
    ],
)
def test_webhook_works_if_it_can_be_called_in_time(harness: Harness, fields: Any, service: str, required: bool) -> None:
    harness.configure(CHECK, "Ignore", **fields)
    if service == "before":
        harness.stored.put(SERVICES, "default/webhooks", spec={})
    harness.begin()
    if service == "during":
        harness.stored.put(SERVICES, "default/webhooks", spec={})

    assert harness.write().endswith(f"without a review by {CHECK}") is required


@pytest.mark.parametrize(("before", "after", "required"), [(1, 1, True), (1, 2, False), (None, None, False)])
def test_webhook_works_without_a_fault(harness: Harness, before: object, after: object, required: bool) -> None:
    harness.configure(CHECK, "Ignore")
    harness.calm = before
    harness.begin()
    harness.calm = after

    assert bool(harness.write()) is required


@pytest.mark.parametrize(
    ("policy", "outcomes", "reported"),
    [
        ("Fail", ("allowed",), True),
        ("Ignore", ("allowed",), True),
        ("Ignore", ("failed", "allowed"), False),
        ("Ignore", ("failed",), False),
        ("Ignore", (), False),
    ],
)
def test_patch_is_required_if_its_webhook_responded(
    harness: Harness, policy: str, outcomes: tuple[str, ...], reported: bool
) -> None:
    harness.server.set_behavior(FIRST, "slow")
    harness.configure(FIRST, policy)
    harness.begin()
    for outcome in outcomes:
        harness.review(FIRST, outcome)

    assert harness.write().endswith(f"was written without the patch of {FIRST}") is reported


@pytest.mark.parametrize("policy", ["Never", "IfNeeded"])
def test_only_webhooks_with_the_policy_are_called_again(harness: Harness, policy: str) -> None:
    harness.configure(FIRST, reinvocationPolicy=policy)
    harness.configure(SECOND, reinvocationPolicy=policy)
    harness.begin()
    harness.review(FIRST)
    harness.review(SECOND)

    assert bool(harness.write(**{FIRST: "n1", SECOND: "n1"})) is (policy == "IfNeeded")


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({}, True),
        ({"rules": [{"operations": ["CREATE", "UPDATE"]}]}, False),
        ({"failurePolicy": "Ignore"}, False),
        ({"objectSelector": {"matchLabels": {REVIEWED: "true", label(CHECK): "true"}}}, False),
    ],
)
def test_deletion_needs_a_review_by_a_webhook_for_deletions(harness: Harness, fields: Any, reported: bool) -> None:
    harness.write()
    harness.configure(CHECK, **fields)
    harness.stored.now = 601.0
    harness.stored.invariants.request_deletion(KEY)
    harness.review("validating-1", identity=KEY)
    harness.review(CHECK, "denied", KEY)

    harness.stored.delete(CONFIG_MAPS, KEY)

    assert "was deleted without a review" in harness.stored.violation if reported else not harness.stored.violation


def test_deletion_that_was_admitted_before_needs_no_review(harness: Harness) -> None:
    harness.stored.put(CONFIG_MAPS, KEY, {"labels": {REVIEWED: "true"}, "deletionTimestamp": "2026-01-01T00:00:00Z"})
    harness.configure(CHECK)
    harness.stored.now = 601.0
    harness.stored.invariants.request_deletion(KEY)

    harness.stored.delete(CONFIG_MAPS, KEY)

    assert harness.stored.violation == ""


@pytest.mark.parametrize("key", [KEY, "ns/other"])
def test_objects_without_the_label_are_not_reviewed(harness: Harness, key: str) -> None:
    harness.configure(CHECK)
    harness.begin()
    checked = harness.stored.violations.checked
    harness.stored.put(CONFIG_MAPS, key, data={NONCE: "n1"})
    harness.stored.put("core/secrets", key, {"labels": {REVIEWED: "true"}}, data={NONCE: "n1"})

    assert (harness.stored.violation, harness.stored.violations.checked) == ("", checked + 2)


def test_write_that_keeps_the_nonce_is_not_verified_again(harness: Harness) -> None:
    harness.begin()
    assert harness.write() == ""
    harness.configure(CHECK)

    assert harness.write(other="x") == ""


def test_longest_delay_includes_changed_configurations_and_second_calls(harness: Harness) -> None:
    write = harness.begin()
    assert harness.reviewed.longest(write) == 0

    harness.configure(CHECK, timeoutSeconds=3)
    harness.configure(CHECK, timeoutSeconds=1)
    harness.configure(FIRST, timeoutSeconds=10)
    harness.configure(BROAD, timeoutSeconds=5)

    assert harness.reviewed.longest(write) == 3 + 2 * 10 + 5
    assert harness.reviewed.longest(harness.begin("n2")) == 1 + 2 * 10 + 5


def test_past_requests_and_reviews_are_forgotten(harness: Harness) -> None:
    harness.configure(CHECK)
    harness.begin()
    harness.review(CHECK, "denied")
    harness.reviewed.forget()

    assert (harness.write(), harness.server.reviews) == ("", {})
