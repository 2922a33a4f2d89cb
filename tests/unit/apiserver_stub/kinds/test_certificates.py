"""Tests for updates of CertificateSigningRequests: decisions, times and subresources."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.certificates import SigningRequestStrategy
from nodeagent.base.identity import Identity

EARLIER = "2026-01-01T00:00:00Z"


def request(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "spec": {"signerName": "example.com/a"}, "status": status}


def condition(kind: str, status: str = "True", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, **fields}


def updated(new: Any, old: Any, subresource: str) -> Any:
    SigningRequestStrategy(Identity()).prepare_update(new, old, subresource)
    return new


def test_update_changes_neither_spec_nor_status() -> None:
    new = {**request(certificate="x"), "spec": {"signerName": "other"}}

    assert updated(new, request(certificate="a"), "") == request(certificate="a")
    assert updated(request(certificate="x"), {**request(), "status": None}, "")["status"] == {}


def test_approval_changes_only_conditions() -> None:
    new = request(certificate="x", conditions=[condition("Approved")])

    found = updated(new, request(certificate="a", conditions=[condition("Failed")]), "approval")

    assert found["status"]["certificate"] == "a"
    assert [item["type"] for item in found["status"]["conditions"]] == ["Approved"]
    assert updated(request(certificate="x"), request(), "approval")["status"] == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([condition("Approved", reason="new")], ["old"]),
        ([condition("Failed", reason="f"), condition("Approved", reason="new")], ["f", "old"]),
        ([condition("Denied", reason="new")], ["new"]),
        ([condition("Approved", reason="a"), condition("Approved", reason="b")], ["a", "b"]),
    ],
)
def test_status_keeps_the_decision(given: Any, expected: list[str]) -> None:
    new = request(certificate="x", conditions=given)

    found = updated(new, request(conditions=[condition("Approved", reason="old")]), "status")

    assert found["status"]["certificate"] == "x"
    assert [item["reason"] for item in found["status"]["conditions"]] == expected


@pytest.mark.parametrize(
    ("new", "is_kept"),
    [
        (condition("Failed"), True),
        (condition("Failed", "False"), False),
        (condition("Other"), False),
        (condition("Failed", lastTransitionTime=EARLIER, lastUpdateTime=EARLIER), True),
        (condition("Failed", "False", lastTransitionTime=EARLIER), True),
    ],
)
def test_transition_time_is_kept_until_the_status_changes(new: Any, *, is_kept: bool) -> None:
    old = request(conditions=[condition("Other", "False"), condition("Failed", lastTransitionTime=EARLIER)])

    (found,) = updated(request(conditions=[new]), old, "status")["status"]["conditions"]

    assert (found["lastTransitionTime"] == EARLIER) is is_kept
    assert (found["lastUpdateTime"] == EARLIER) is ("lastUpdateTime" in new)
