"""Tests for the invariants of conversions: stored objects and responses have the field of their version only."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.client import Response
from apiserver_stub.simulation.collections import GADGETS
from apiserver_stub.simulation.conversion import ConversionRequests
from apiserver_stub.simulation.webhooks import CONVERSION, WebhookServer
from tests.unit.apiserver_stub.simulation.stored import Stored

V1, V2 = "simulated.test/v1", "simulated.test/v2"


class Requests:
    def __init__(self) -> None:
        self.responses: list[Response] = []
        self.sent: list[tuple[Any, ...]] = []

    async def send(self, *request: Any) -> Response:
        self.sent.append(request)
        return self.responses.pop(0)


class Harness:
    def __init__(self) -> None:
        self.stored, self.requests = Stored(), Requests()
        now: Any = lambda: self.stored.now  # noqa: E731
        self.server = WebhookServer(1, self.stored.trace, now)  # type: ignore[arg-type]
        history, violations = self.stored.invariants.history, self.stored.violations
        requests: Any = self.requests
        self.conversion = ConversionRequests(requests, history, violations, self.server, now, lambda: True)
        self.stored.invariants.observers.append(self.conversion.observe)

    def respond(self, code: int, content: Any) -> None:
        self.requests.responses.append(Response(code, {}, msgspec.json.encode(content)))

    def read(self) -> str:
        asyncio.run(self.conversion.read_gadget("ns", 0, "v2"))
        return self.stored.violation


@pytest.fixture
def harness() -> Harness:
    found = Harness()
    found.stored.put(GADGETS, "ns/gadget-0", apiVersion=V1, spec={"first": 7})
    return found


def gadget(version: str, **spec: int) -> dict[str, Any]:
    return {"apiVersion": version, "metadata": {"resourceVersion": "1"}, "spec": spec}


def test_stored_object_with_the_field_of_another_version_is_a_violation(harness: Harness) -> None:
    assert harness.stored.violation == ""
    harness.stored.put(GADGETS, "ns/gadget-0", apiVersion=V2, spec={"first": 7})

    assert "has the version v2 and the fields" in harness.stored.violation


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gadget(V2, second=7), ""),
        (gadget(V1, first=7), "has the version v1"),
        (gadget(V2, first=7), "has the version v2 and the fields"),
        (gadget(V2, second=8), "which was not current"),
    ],
)
def test_read_object_has_the_requested_version_and_the_stored_value(
    harness: Harness, content: Any, problem: str
) -> None:
    harness.respond(200, content)

    found = harness.read()
    assert (problem in found) if problem else not found


def test_list_has_the_requested_version(harness: Harness) -> None:
    item = gadget(V1, first=7)
    item["metadata"] |= {"namespace": "ns", "name": "gadget-0"}
    harness.respond(200, {"metadata": {"resourceVersion": "1"}, "items": [item]})
    asyncio.run(harness.conversion.list_gadgets("ns", "v2"))

    assert "has the version v1" in harness.stored.violation


def test_write_returns_the_written_value(harness: Harness) -> None:
    harness.respond(201, gadget(V2, second=7))
    asyncio.run(harness.conversion.write_gadget("ns", 1, "v2", 8))

    assert "instead of the value 8" in harness.stored.violation


@pytest.mark.parametrize(("behavior", "fails"), [("healthy", True), ("hang", False)])
def test_failed_conversion_is_a_violation_if_the_webhook_responds(
    harness: Harness, behavior: str, *, fails: bool
) -> None:
    harness.stored.now = 1.0
    harness.server.set_behavior(CONVERSION, behavior)
    harness.respond(500, {"message": "conversion webhook for simulated.test/v1, Kind=Gadget failed"})

    assert ("although the webhook responds" in harness.read()) is fails


@pytest.mark.parametrize("storage", ["v1", "v2"])
@pytest.mark.parametrize("exists", [True, False])
def test_definition_that_exists_changes_its_storage_version(harness: Harness, storage: str, exists: bool) -> None:
    harness.respond(409 if exists else 201, {})
    harness.respond(200, {})
    asyncio.run(harness.conversion.apply_gadget_kind(storage))

    sent = harness.requests.sent
    assert [each[0] for each in sent] == (["POST", "PATCH"] if exists else ["POST"])
    versions = sent[-1][2]["spec"]["versions"]
    assert [each["name"] for each in versions if each["storage"]] == [storage]
    assert len(versions) == 2


@pytest.mark.parametrize("exists", [True, False])
def test_gadget_that_exists_changes_its_value(harness: Harness, exists: bool) -> None:
    if exists:
        harness.respond(409, {})
    harness.respond(200, gadget(V2, second=8))
    asyncio.run(harness.conversion.write_gadget("ns", 1, "v2", 8))

    assert [each[0] for each in harness.requests.sent] == (["POST", "PATCH"] if exists else ["POST"])
    assert harness.requests.sent[-1][2]["spec"] == {"second": 8}
    assert harness.stored.violation == ""


@pytest.mark.parametrize("code", [404, 503])
def test_content_of_a_failed_request_is_not_verified(harness: Harness, code: int) -> None:
    for step in (
        lambda: harness.conversion.read_gadget("ns", 0, "v2"),
        lambda: harness.conversion.list_gadgets("ns", "v2"),
        lambda: harness.conversion.write_gadget("ns", 1, "v2", 8),
    ):
        harness.respond(code, {"message": "unavailable"})
        asyncio.run(step())

    assert harness.stored.violation == ""
