"""Tests for the requests of simulated clients: responses that contradict the history of the store are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.client import Lost, Response
from apiserver_stub.simulation.collections import CONFIG_MAPS, NAMESPACES
from apiserver_stub.simulation.reflector import COLOR
from apiserver_stub.simulation.requests import FINALIZER, LABEL, Requests
from apiserver_stub.simulation.webhooks import BROAD
from tests.unit.apiserver_stub.simulation.stored import Object, Stored

KEY = "ns/a"
MAPS = "/api/v1/namespaces/ns/configmaps"
PATH = f"{MAPS}/a"
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
Reply = Response | Exception | Callable[[], Response]


def response(code: int, content: Any = None) -> Response:
    return Response(code, {}, msgspec.json.encode(content or {}))


def failure(code: int, reason: str = "", message: str = "", **fields: Any) -> Response:
    return response(code, {"reason": reason, "message": message, **fields})


class Harness:
    """Client and store: the responses are set by the test, and may change the store before they are returned."""

    def __init__(self) -> None:
        self.stored, self.replies, self.sent = Stored(), list[Reply](), list[tuple[str, str, Any]]()
        client: Any = self
        trace: Any = self.stored.trace
        self.requests = Requests(client, self.stored.invariants, self.stored.violations, trace)
        self.stored.put(NAMESPACES, "ns")

    async def request(self, method: str, path: str, body: Any, content_type: str) -> Response:
        self.sent.append((method, path, body))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Response) else reply()

    def write(self, metadata: Object | None = None, /, code: int = 200, name: str = "a", **fields: Any) -> Response:
        """Write a config map and return the response to the write."""
        version = {"resourceVersion": str(self.stored.revision + 1)}
        self.stored.put(CONFIG_MAPS, f"ns/{name}", {**version, **(metadata or {})}, **fields)
        return self.read(code, name)

    def writes(self, *arguments: Any, **fields: Any) -> Callable[[], Response]:
        return lambda: self.write(*arguments, **fields)

    def read(self, code: int = 200, name: str = "a") -> Response:
        return Response(code, {}, self.stored.invariants.history.current[CONFIG_MAPS][f"ns/{name}"].data)

    def delete(self) -> None:
        self.stored.invariants.request_deletion(KEY)
        self.stored.delete(CONFIG_MAPS, KEY)

    def deletes(self, reply: Response) -> Callable[[], Response]:
        def deleted() -> Response:
            self.delete()
            return reply

        return deleted

    def run(self, step: Coroutine[Any, Any, Any], *replies: Reply) -> str:
        """Run a step with the responses *replies* and return the first violation."""
        self.replies[:] = replies
        asyncio.run(step)
        assert self.replies == [], "each response was requested"
        return self.stored.violation

    def create(self, *, dry_run: bool = False) -> Coroutine[Any, Any, None]:
        return self.requests.create_map("ns", "a", 7, 1, finalizer=False, dry_run=dry_run)

    def update(self, *, versioned: bool = True) -> Coroutine[Any, Any, None]:
        return self.requests.update_map("ns", "a", 7, versioned=versioned)

    def patch(self) -> Coroutine[Any, Any, None]:
        return self.requests.patch_map("ns", "a", 7, versioned=False)

    def apply(self, *, force: bool = False) -> Coroutine[Any, Any, None]:
        return self.requests.apply_map("ns", "a", 7, 3, force=force)

    def remove(self, precondition: str = "", policy: str = "") -> Coroutine[Any, Any, None]:
        return self.requests.delete_map("ns", "a", precondition, policy)


@pytest.fixture
def harness() -> Harness:
    return Harness()


UPDATED = {"data": {"value": "7"}}
PATCHED = {"data": {"patched": "7"}}
APPLIED = {"data": {"manager-1": "7"}}


# --- all requests


@pytest.mark.parametrize(
    ("code", "message", "reported"),
    [(500, "a panic", True), (500, "disk full", False), (503, "a panic", False)],
)
def test_panic_of_the_server_is_a_violation(harness: Harness, code: int, message: str, reported: bool) -> None:
    found = harness.run(harness.requests.send("GET", "/x"), failure(code, message=message))

    assert found.startswith("GET /x failed with") is reported
    assert harness.stored.trace.entries[1][:2] == ("response", f"GET /x {code} 0")


@pytest.mark.parametrize(
    ("code", "webhook", "lost"), [(400, BROAD, True), (403, BROAD, True), (403, "other", False), (200, BROAD, False)]
)
def test_result_is_unknown_if_the_broad_webhook_rejects(harness: Harness, code: int, webhook: str, lost: bool) -> None:
    harness.replies = [failure(code, message=f'webhook "{webhook}.simulated.test" denied')]
    sending = harness.requests.send("GET", "/x")
    if lost:
        with pytest.raises(Lost):
            asyncio.run(sending)
    else:
        assert asyncio.run(sending).code == code


def test_lost_request_is_traced(harness: Harness) -> None:
    with pytest.raises(Lost):
        harness.run(harness.requests.send("GET", "/x"), Lost("timeout"))

    assert harness.stored.trace.entries[-1] == ("lost", "GET /x timeout")


# --- create


def test_created_map_is_permitted(harness: Harness) -> None:
    assert harness.run(harness.create(), harness.writes(code=201)) == ""
    assert harness.sent[0][:2] == ("POST", MAPS)


@pytest.mark.parametrize("finalizer", [True, False])
def test_map_is_created_with_its_finalizer_and_size(harness: Harness, finalizer: bool) -> None:
    harness.run(harness.requests.create_map("ns", "a", 7, 3, finalizer=finalizer, dry_run=True), response(201))

    body = {"metadata": {"name": "a", "labels": {LABEL: "true"}}, "data": {"value": "777"}}
    if finalizer:
        body["metadata"]["finalizers"] = [FINALIZER]
    assert harness.sent == [("POST", f"{MAPS}?dryRun=All", body)]


@pytest.mark.parametrize("exists", [True, False])
def test_dry_run_of_a_creation_fails_if_the_object_exists(harness: Harness, exists: bool) -> None:
    if exists:
        harness.write()

    found = harness.run(harness.create(dry_run=True), response(201))

    assert found == ("create of ns/a succeeded as a dry run, although it existed" if exists else "")


def test_creation_that_replaced_an_object_is_a_violation(harness: Harness) -> None:
    harness.write()

    assert harness.run(harness.create(), harness.writes(code=201)) == "create of ns/a returned 3, which is MODIFIED"


@pytest.mark.parametrize(("step", "fields"), [("create", {}), ("apply", APPLIED)])
def test_creation_in_a_terminating_namespace_is_a_violation(harness: Harness, step: str, fields: Any) -> None:
    harness.stored.put(NAMESPACES, "ns", TERMINATING)

    found = harness.run(getattr(harness, step)(), harness.writes(code=201, **fields))

    assert found in (
        "create of ns/a succeeded in a namespace that is being deleted",
        "apply of ns/a created 3 unexpectedly",
    )


@pytest.mark.parametrize(
    ("exists", "reason", "reported"),
    [(False, "AlreadyExists", True), (False, "Conflict", False), (True, "AlreadyExists", False)],
)
def test_conflict_of_a_creation_needs_an_object(harness: Harness, exists: bool, reason: str, reported: bool) -> None:
    if exists:
        harness.write()

    found = harness.run(harness.create(), failure(409, reason))

    assert found == ("create of ns/a failed with AlreadyExists, but it did not exist" if reported else "")


@pytest.mark.parametrize("step", ["create", "apply"])
@pytest.mark.parametrize(
    ("code", "reported"),
    [(400, True), (422, True), *((code, False) for code in (403, 404, 409, 429, 500, 503, 504))],
)
def test_some_errors_of_a_creation_are_permitted(harness: Harness, step: str, code: int, reported: bool) -> None:
    found = harness.run(getattr(harness, step)(), failure(code, "r"))

    assert found.startswith(f"{step} of ns/a failed with {code}") is reported


@pytest.mark.parametrize("block", [True, False])
def test_dependent_has_the_owner_that_was_read(harness: Harness, block: bool) -> None:
    harness.run(
        harness.requests.create_dependent("ns", "a", 4, block=block),
        harness.write(),
        harness.writes(code=201, name="dependent-4"),
    )

    (_, _, body) = harness.sent[1]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "blockOwnerDeletion": block, "uid": KEY}
    assert body == {"metadata": {"name": "dependent-4", "ownerReferences": [reference]}}
    assert harness.stored.violation == ""


def test_dependent_of_a_missing_owner_is_not_created(harness: Harness) -> None:
    assert harness.run(harness.requests.create_dependent("ns", "a", 4, block=True), failure(404)) == ""
    assert len(harness.sent) == 1


# --- update


@pytest.mark.parametrize("versioned", [True, False])
def test_update_sends_the_version_if_requested(harness: Harness, versioned: bool) -> None:
    found = harness.run(harness.update(versioned=versioned), harness.write(), harness.writes(**UPDATED))

    assert found == ""
    body = harness.sent[1][2]
    assert (body["data"], body["metadata"].get("resourceVersion")) == ({"value": "7"}, "2" if versioned else None)


@pytest.mark.parametrize("versioned", [True, False])
def test_update_of_a_newer_version_is_a_violation_if_versioned(harness: Harness, versioned: bool) -> None:
    def replaced() -> Response:
        harness.write()
        return harness.write(**UPDATED)

    found = harness.run(harness.update(versioned=versioned), harness.write(), replaced)

    assert found == ("update of ns/a with version 2 replaced version 3" if versioned else "")


def test_update_without_a_change_returns_the_version_that_was_read(harness: Harness) -> None:
    harness.write()
    read = harness.write(**UPDATED)

    assert harness.run(harness.update(), read, read) == ""


def test_update_that_returns_other_data_is_a_violation(harness: Harness) -> None:
    found = harness.run(harness.update(), harness.write(), harness.writes(data={"value": "8"}))

    assert found == "update of ns/a returned other data"


@pytest.mark.parametrize(
    ("during", "reported"),
    [
        (lambda harness: None, True),
        (lambda harness: harness.write(), False),
        (lambda harness: harness.delete(), False),
    ],
    ids=["unchanged", "changed", "deleted"],
)
def test_conflict_needs_another_version(harness: Harness, during: Any, reported: bool) -> None:
    def conflict() -> Response:
        during(harness)
        return failure(409)

    found = harness.run(harness.update(), harness.write(), conflict)

    assert found == ("update of ns/a with the current version 2 is a conflict" if reported else "")


def test_conflict_of_an_update_without_a_version_needs_a_deletion(harness: Harness) -> None:
    assert harness.run(harness.update(versioned=False), harness.write(), harness.deletes(failure(409))) == ""

    found = harness.run(harness.update(versioned=False), harness.write(), failure(409))

    assert found.startswith("update of ns/a failed with 409")


def test_missing_map_is_not_updated(harness: Harness) -> None:
    assert harness.run(harness.update(), failure(404)) == ""
    assert harness.run(harness.requests.contend("ns", "a", 2), failure(404)) == ""
    assert [method for method, _, _ in harness.sent] == ["GET", "GET"]


def test_update_that_completes_a_deletion_has_no_version(harness: Harness) -> None:
    read = harness.write({**TERMINATING, "finalizers": ["x"]})
    done = response(200, {"metadata": TERMINATING})

    assert harness.run(harness.update(), read, done) == ""


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ((3, 4), "updates of ns/a with one version succeeded as [3, 4]"),
        ((3, 3), ""),
        ((2, 3), ""),
        ((3, failure(409, metadata={"resourceVersion": "9"})), ""),
        ((3, Lost("timeout")), ""),
    ],
)
def test_one_of_several_updates_with_the_same_version_succeeds(
    harness: Harness, replies: tuple[Any, ...], expected: str
) -> None:
    responses = [
        response(200, {"metadata": {"resourceVersion": str(each)}}) if isinstance(each, int) else each
        for each in replies
    ]

    assert harness.run(harness.requests.contend("ns", "a", 2), harness.write(), *responses) == expected
    assert [body["data"]["value"] for _, _, body in harness.sent[1:]] == ["contender 0", "contender 1"]


# --- patch and apply


@pytest.mark.parametrize(("data", "expected"), [(PATCHED, ""), ({"data": {"patched": "8"}}, "returned other data")])
def test_patch_returns_the_patched_data(harness: Harness, data: Object, expected: str) -> None:
    found = harness.run(harness.patch(), harness.writes(**data))

    assert found == (f"patch of ns/a {expected}" if expected else "")
    assert harness.sent == [("PATCH", PATH, {"metadata": {"labels": {COLOR: "blue"}}, **PATCHED})]


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        (200, APPLIED, ""),
        (201, APPLIED, ""),
        (200, {"data": {"manager-1": "8"}}, "apply of ns/a returned other data"),
        (201, {}, "apply of ns/a returned other data"),
    ],
)
def test_apply_returns_the_applied_data(harness: Harness, code: int, fields: Object, expected: str) -> None:
    assert harness.run(harness.apply(), harness.writes(code=code, **fields)) == expected
    assert harness.sent[0][:2] == ("PATCH", f"{PATH}?fieldManager=manager-3")


def test_apply_that_creates_an_existing_object_is_a_violation(harness: Harness) -> None:
    harness.write()
    assert harness.run(harness.apply(), harness.writes(**APPLIED)) == ""

    assert harness.run(harness.apply(), harness.writes(code=201, **APPLIED)) == "apply of ns/a created 4 unexpectedly"


def test_apply_may_change_an_object_of_a_terminating_namespace(harness: Harness) -> None:
    harness.write()
    harness.stored.put(NAMESPACES, "ns", TERMINATING)

    assert harness.run(harness.apply(), harness.writes(**APPLIED)) == ""


@pytest.mark.parametrize(
    ("force", "causes", "message", "reported"),
    [
        (True, ["c"], "", True),
        (True, [], "", False),
        (True, ["c"], "exceeded quota", False),
        (False, ["c"], "", False),
    ],
)
def test_forced_apply_has_no_conflict_of_managers(
    harness: Harness, force: bool, causes: list[str], message: str, reported: bool
) -> None:
    found = harness.run(harness.apply(force=force), failure(409, message=message, details={"causes": causes}))

    assert found.startswith("apply of ns/a with force is a conflict") is reported
    assert ("&force=true" in harness.sent[0][1]) is force


# --- writes


@pytest.mark.parametrize("finalizers", [[], ["x"]])
def test_write_must_be_durable_unless_it_removes_the_last_finalizer(harness: Harness, finalizers: list[str]) -> None:
    metadata = {**TERMINATING, "finalizers": finalizers, "resourceVersion": "9"}

    found = harness.run(harness.patch(), response(200, {"metadata": metadata, **PATCHED}))

    assert found == ("write to ns/a returned the version 9, which is not durable" if finalizers else "")


def test_version_of_another_object_is_not_durable(harness: Harness) -> None:
    found = harness.run(harness.patch(), harness.writes(name="other", **PATCHED))

    assert found == "write to ns/a returned the version 2, which is not durable"


def test_version_that_the_history_no_longer_has_is_not_verified(harness: Harness) -> None:
    def forgotten() -> Response:
        reply = harness.write(**PATCHED)
        harness.write()
        harness.stored.invariants.history.forget(3)
        return reply

    assert harness.run(harness.patch(), forgotten) == ""


def test_response_with_other_content_than_was_written_is_a_violation(harness: Harness) -> None:
    def changed() -> Response:
        return response(200, {**harness.write(**PATCHED).content, "extra": 1})

    assert harness.run(harness.patch(), changed).startswith(
        "write to ns/a returned other content than was written at 2"
    )


# --- reads and errors


@pytest.mark.parametrize("during", [True, False])
def test_read_must_return_a_current_version(harness: Harness, during: bool) -> None:
    old = harness.write()

    def changed() -> Response:
        harness.write()
        return old

    if not during:
        harness.write()

    found = harness.run(harness.requests.read_map("ns", "a"), changed if during else old)

    assert found == ("" if during else "read of ns/a returned 2, which was not the current version")


def test_read_of_a_deleted_version_is_a_violation(harness: Harness) -> None:
    old = harness.write()
    harness.delete()

    assert harness.run(harness.requests.read_map("ns", "a"), old).startswith("read of ns/a returned 2")


@pytest.mark.parametrize(
    ("verb", "step"),
    [
        ("read", lambda harness: harness.requests.read_map("ns", "a")),
        ("patch", Harness.patch),
        ("patch", lambda harness: harness.requests.remove_finalizer("ns", "a")),
        ("delete", Harness.remove),
    ],
)
@pytest.mark.parametrize(
    ("code", "expected"),
    [(404, " failed with 404, but it existed"), (400, " failed with 400"), (500, ""), (503, ""), (429, ""), (504, "")],
)
def test_errors_for_an_existing_object(harness: Harness, verb: str, step: Any, code: int, expected: str) -> None:
    harness.write()

    found = harness.run(step(harness), failure(code))

    assert found.startswith(f"{verb} of ns/a{expected}") if expected else found == ""


@pytest.mark.parametrize("step", [Harness.patch, Harness.remove])
def test_object_that_was_deleted_during_the_request_may_be_missing(harness: Harness, step: Any) -> None:
    harness.write()

    assert harness.run(step(harness), harness.deletes(failure(404))) == ""


def test_removal_of_finalizers_may_delete_the_object(harness: Harness) -> None:
    harness.write(TERMINATING)

    def deleted() -> Response:
        harness.stored.delete(CONFIG_MAPS, KEY)
        return response(200)

    assert harness.run(harness.requests.remove_finalizer("ns", "a"), deleted) == ""
    assert harness.sent == [("PATCH", PATH, {"metadata": {"finalizers": None}})]


# --- delete


@pytest.mark.parametrize(
    ("precondition", "expected"),
    [
        ("uid", {"uid": KEY}),
        ("version", {"resourceVersion": "2"}),
        ("wrong", {"uid": "00000000-0000-4000-8000-000000000000"}),
    ],
)
def test_preconditions_are_those_of_the_object_that_was_read(
    harness: Harness, precondition: str, expected: Object
) -> None:
    assert harness.run(harness.remove(precondition, "Orphan"), harness.write(), failure(409)) == ""
    assert harness.sent[1] == ("DELETE", PATH, {"propagationPolicy": "Orphan", "preconditions": expected})


def test_missing_map_is_not_deleted_with_preconditions(harness: Harness) -> None:
    assert harness.run(harness.remove("uid"), failure(404)) == ""
    assert len(harness.sent) == 1


def test_deletion_with_a_wrong_precondition_is_a_violation(harness: Harness) -> None:
    found = harness.run(harness.remove("wrong"), harness.write(), harness.writes(TERMINATING))

    assert found == "delete of ns/a with the UID of another object succeeded"


def test_wrong_precondition_requests_no_deletion(harness: Harness) -> None:
    harness.run(harness.remove("wrong"), harness.write(), failure(409))
    harness.stored.delete(CONFIG_MAPS, KEY)

    assert "was deleted without a request" in harness.stored.violation


@pytest.mark.parametrize(
    ("during", "reported"),
    [
        (lambda harness: harness.delete(), False),
        (lambda harness: harness.write(TERMINATING), False),
        (lambda harness: None, True),
    ],
    ids=["deleted", "terminating", "unchanged"],
)
def test_successful_deletion_changes_the_object(harness: Harness, during: Any, reported: bool) -> None:
    harness.write()

    def done() -> Response:
        during(harness)
        return response(200)

    found = harness.run(harness.remove(), done)

    assert found == ("delete of ns/a succeeded, but it exists unchanged" if reported else "")
    assert harness.sent == [("DELETE", PATH, {})]


def test_conflict_of_a_deletion_needs_preconditions(harness: Harness) -> None:
    harness.write()

    assert harness.run(harness.remove(), failure(409)).startswith("delete of ns/a without preconditions is a conflict")


def test_all_maps_of_one_namespace_are_deleted(harness: Harness) -> None:
    harness.write()
    harness.run(harness.requests.delete_maps("", 0, 0.0))
    assert harness.sent == []

    harness.run(harness.requests.delete_maps("ns", 0, 0.0), response(200))
    harness.stored.delete(CONFIG_MAPS, KEY)

    assert harness.sent == [("DELETE", f"{MAPS}?labelSelector={LABEL}%3Dtrue", None)]
    assert harness.stored.violation == ""


# --- lists


def page(harness: Harness, *names: str, version: int = 0, token: str = "") -> Response:
    items = [harness.read(name=name).content for name in names]
    metadata = {"resourceVersion": str(version or harness.stored.revision), **({"continue": token} if token else {})}
    return response(200, {"metadata": metadata, "items": items})


@pytest.mark.parametrize(("namespace", "path"), [("ns", MAPS), ("", "/api/v1/configmaps")])
def test_pages_of_a_list_are_one_snapshot(harness: Harness, namespace: str, path: str) -> None:
    harness.write()
    harness.write(name="b")
    first, second = page(harness, "a", token="t"), page(harness, "b")

    assert harness.run(harness.requests.list_maps(namespace, 1, 0.0), first, second) == ""
    assert [sent for _, sent, _ in harness.sent] == [f"{path}?limit=1", f"{path}?limit=1&continue=t"]


def test_list_of_a_namespace_has_only_its_objects(harness: Harness) -> None:
    harness.write()
    harness.stored.put(CONFIG_MAPS, "other/a")

    assert harness.run(harness.requests.list_maps("ns", 0, 0.0), page(harness, "a")) == ""
    assert harness.run(harness.requests.list_maps("", 0, 0.0), page(harness, "a")).endswith("not a snapshot: other/a")
    assert harness.sent[0] == ("GET", MAPS, None)


def test_incomplete_list_is_a_violation(harness: Harness) -> None:
    harness.write()
    harness.write(name="b")

    found = harness.run(harness.requests.list_maps("ns", 0, 0.0), page(harness, "a"))

    assert found == f"list of {MAPS} at 3 is not a snapshot: ns/b"


def test_pages_of_different_versions_are_a_violation(harness: Harness) -> None:
    harness.write()
    first = page(harness, "a", version=2, token="t")

    def second() -> Response:
        harness.write(name="b")
        return page(harness, "b")

    found = harness.run(harness.requests.list_maps("ns", 1, 0.0), first, second)

    assert found == f"pages of {MAPS} have the versions [2, 3]"


def test_token_may_expire_between_pages(harness: Harness) -> None:
    harness.write()
    first = page(harness, "a", token="t")

    assert harness.run(harness.requests.list_maps("ns", 1, 0.0), first, failure(410)) == ""
    assert harness.run(harness.requests.list_maps("ns", 1, 0.0), failure(410)).startswith(
        f"list of {MAPS} failed with 410"
    )


@pytest.mark.parametrize(("code", "reported"), [(404, False), (503, False), (400, True)])
def test_some_errors_of_a_list_are_permitted(harness: Harness, code: int, reported: bool) -> None:
    found = harness.run(harness.requests.list_maps("ns", 0, 0.0), failure(code))

    assert found.startswith(f"list of {MAPS} failed with {code}") is reported


def test_list_at_a_version_that_the_history_no_longer_has_is_not_verified(harness: Harness) -> None:
    harness.write()

    def forgotten() -> Response:
        reply = page(harness, version=2)
        harness.write()
        harness.stored.invariants.history.forget(3)
        return reply

    assert harness.run(harness.requests.list_maps("ns", 0, 0.0), forgotten) == ""


def test_keys_of_a_collection_are_those_of_the_store(harness: Harness) -> None:
    harness.write()

    assert (harness.requests.keys(CONFIG_MAPS), harness.requests.keys("core/pods")) == ([KEY], [])
