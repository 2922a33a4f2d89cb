"""Tests for the validation of the status of resource claims."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.device_claims import validate_claim_status

RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
CONSUMER = {"resource": "pods", "name": "web", "uid": "1-2"}


def claim(device: str | None = "gpu-0", *consumers: dict[str, str], **metadata: Any) -> dict[str, Any]:
    """Return a claim with an allocated device, or none, and its consumers."""
    status: dict[str, Any] = {"reservedFor": list(consumers)}
    if device is not None:
        status["allocation"] = {"devices": {"results": [{**RESULT, "device": device}]}}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    return {"metadata": {"name": "c", **metadata}, "spec": spec, "status": status}


def problems(new: dict[str, Any], old: dict[str, Any]) -> list[tuple[str | None, str]]:
    return [(cause.field, cause.message.rpartition(": ")[2]) for cause in validate_claim_status(new, old)]


@pytest.mark.parametrize(
    ("device", "before", "expected"),
    [
        ("gpu-0", None, []),
        ("gpu-0", "gpu-0", []),
        (None, "gpu-0", []),
        ("gpu-1", "gpu-0", [("status.allocation", "field is immutable")]),
    ],
)
def test_allocation_does_not_change(device: str | None, before: str | None, expected: list[Any]) -> None:
    assert problems(claim(device), claim(before)) == expected


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("reserved", [False, True])
def test_deleted_claims_get_no_further_consumers(deleted: bool, reserved: bool) -> None:
    old = claim("gpu-0", *([CONSUMER] if reserved else []))
    new = claim("gpu-0", CONSUMER, **({"deletionTimestamp": "2026-11-30T00:00:00Z"} if deleted else {}))

    found = problems(new, old)

    assert [field for field, _ in found] == (["status.reservedFor"] if deleted and not reserved else [])


def test_claims_without_an_allocation_have_no_consumers() -> None:
    assert problems(claim(None, CONSUMER), claim(None)) == [
        ("status.reservedFor", "may not be specified when `allocated` is not set")
    ]
