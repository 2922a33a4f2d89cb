"""Tests for the validation of NetworkPolicies by release."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import network_policies
from apiserver_stub.kinds.registry import Strategy
from apiserver_stub.options import parse


def strategy(release: str) -> Strategy:
    (resource,) = network_policies.resources(parse([f"--compatibility-version={release}"]))
    return resource.strategy


def policy(cidr: str, *excluded: str) -> dict[str, Any]:
    block = {"cidr": cidr, "except": list(excluded)}
    return {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}}


BLOCK = "spec.ingress[0].from[0].ipBlock"


@pytest.mark.parametrize(
    ("release", "new", "fields"),
    [
        ("1.29", policy("10.0.0.0/8", "a", "b"), [f"{BLOCK}.except[0]"]),
        ("1.36", policy("10.0.0.0/8", "a", "b"), [f"{BLOCK}.except[0]", f"{BLOCK}.except[1]"]),
        ("1.36", policy("10.0.0.1/8"), [f"{BLOCK}.cidr"]),
        ("1.35", policy("10.0.0.1/8"), []),
    ],
)
def test_blocks_are_validated_by_release(release: str, new: dict[str, Any], fields: list[str]) -> None:
    assert [cause.field for cause in strategy(release).validate(new)] == fields


def test_stored_blocks_and_repeated_errors_follow_the_release() -> None:
    stored = policy("10.0.0.1/8")

    assert strategy("1.36").validate_update(stored, stored, "") == []
    causes = {release: strategy(release).validate_update(policy(""), stored, "") for release in ("1.35", "1.36")}
    assert {release: len(found) for release, found in causes.items()} == {"1.35": 2, "1.36": 1}
