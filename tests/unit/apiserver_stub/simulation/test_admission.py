"""Tests for the invariants of webhooks: each violation is reported, permitted writes are not."""

from __future__ import annotations

import pytest

from apiserver_stub.simulation.admission import INVALID, REVIEWED, label
from apiserver_stub.simulation.collections import CONFIG_MAPS
from apiserver_stub.simulation.webhooks import MUTATING
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
