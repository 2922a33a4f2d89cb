"""Tests for the simulated watch client: each event must be the next change that its selector covers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.client import Lost, Response
from apiserver_stub.simulation.network import ServerLoop
from apiserver_stub.simulation.reflector import COLOR, Reflector, verify_list
from tests.unit.apiserver_stub.simulation.stored import Stored

MAPS = "core/configmaps"


class Harness:
    """Reflector of the namespace ``n``, and of objects with *color* only."""

    def __init__(self, color: str = "") -> None:
        self.store = Stored()
        history = self.store.invariants.history
        client: Any = None
        path = "/api/v1/namespaces/n/configmaps"
        self.reflector = Reflector(client, history, self.store.violations, path, MAPS, "n/", color)

    def put(self, name: str, color: str = "", namespace: str = "n") -> None:
        labels = {"labels": {COLOR: color}} if color else {}
        self.store.put(MAPS, f"{namespace}/{name}", {**labels, "resourceVersion": str(self.store.revision + 1)})

    def delete(self, name: str, **last: Any) -> None:
        """Delete an object whose last state has the fields *last* in addition."""
        previous = self.store._records.pop((MAPS, f"n/{name}"))
        obj = {**msgspec.json.decode(previous.data), **last}
        obj["metadata"]["resourceVersion"] = str(self.store.revision + 1)
        self.store._publish("DELETED", MAPS, self.store._record(previous.key, obj), previous)

    def event(self, kind: str, name: str, color: str = "", revision: int | None = None, **fields: Any) -> None:
        key = f"n/{name}"
        metadata = {"name": name, "uid": key, "namespace": "n"} | ({"labels": {COLOR: color}} if color else {})
        metadata["resourceVersion"] = str(revision or self.store.revision)
        line = {"type": kind, "object": {"metadata": metadata, **fields}}
        self.reflector._receive(msgspec.json.encode(line) + b"\n")

    @property
    def violation(self) -> str:
        return self.store.violation


def test_changes_of_the_namespace_are_expected_in_order() -> None:
    harness = Harness()
    harness.put("a")
    harness.put("b", namespace="other")
    harness.event("ADDED", "a", revision=1)
    harness.put("c")
    harness.event("ADDED", "c")
    harness.delete("a")
    harness.event("DELETED", "a")

    assert (harness.violation, harness.reflector.copy) == ("", {"n/c": 3})


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("", "red", "ADDED"),
        ("blue", "red", "ADDED"),
        ("red", "red", "MODIFIED"),
        ("red", "blue", "DELETED"),
        ("blue", "green", None),
    ],
)
def test_event_of_a_selector_depends_on_the_state_before(before: str, after: str, kind: str | None) -> None:
    harness = Harness("red")
    harness.put("a", before)
    if before == "red":
        harness.event("ADDED", "a", "red")
    harness.put("a", after)
    if kind is not None:
        harness.event(kind, "a", before if kind == "DELETED" else after)
    harness.put("b", "red")
    harness.event("ADDED", "b", "red")

    assert harness.violation == ""


@pytest.mark.parametrize(("color", "expected"), [("red", True), ("blue", False)])
def test_deletion_is_expected_for_selected_objects(color: str, *, expected: bool) -> None:
    harness = Harness("red")
    harness.put("a", color)
    if color == "red":
        harness.event("ADDED", "a", color)
    harness.delete("a")
    harness.event("DELETED", "a", color)

    assert (harness.violation == "") is expected


def test_lost_repeated_and_changed_events_are_violations() -> None:
    for events, text in (
        ([("ADDED", "b", 2)], "ADDED n/b 2 instead of ADDED n/a 1"),
        ([("ADDED", "a", 1), ("ADDED", "b", 2), ("ADDED", "b", 2)], "unexpected ADDED n/b 2"),
        ([("MODIFIED", "a", 1)], "MODIFIED n/a 1 instead of ADDED n/a 1"),
        ([("BOOKMARK", "a", 1)], "bookmark 1 of /api/v1/namespaces/n/configmaps before the event 1"),
        ([("ADDED", "a", 1), ("BOOKMARK", "a", 2)], "before the event 2"),
    ):
        harness = Harness()
        harness.put("a")
        harness.put("b")
        for kind, name, revision in events:
            harness.event(kind, name, revision=revision)
        assert text in harness.violation, events
    harness = Harness()
    harness.put("a")
    harness.event("ADDED", "a", data={"k": "v"})
    assert "has other content" in harness.violation


@pytest.mark.parametrize(
    ("varies", "fields", "valid"),
    [
        (False, {"data": {"k": "last"}}, True),
        (False, {}, False),
        (True, {"data": {"k": "last"}}, True),
        (True, {}, True),
        (True, {"data": {"k": "other"}}, False),
    ],
)
def test_event_of_a_removal_may_have_the_state_before_it(varies: bool, fields: dict[str, Any], valid: bool) -> None:
    harness = Harness()
    harness.store.invariants.history.varies_removals = varies
    harness.put("a")
    harness.event("ADDED", "a")
    harness.delete("a", data={"k": "last"})
    harness.event("DELETED", "a", **fields)

    assert (harness.violation == "") is valid


def test_bookmark_after_all_changes_is_valid() -> None:
    harness = Harness()
    harness.put("a")
    harness.event("ADDED", "a", revision=1)
    harness.put("b", namespace="other")
    harness.event("BOOKMARK", "a", revision=2)

    assert harness.violation == ""


@pytest.mark.parametrize(("code", "text"), [(410, ""), (500, ""), (503, ""), (504, ""), (400, "ended with")])
def test_some_errors_may_end_a_watch(code: int, text: str) -> None:
    harness = Harness()

    harness.reflector._receive(msgspec.json.encode({"type": "ERROR", "object": {"code": code}}) + b"\n")

    assert text in harness.violation
    assert bool(harness.violation) is bool(text)


def test_copy_must_be_complete() -> None:
    for color, expected in (("", ""), ("red", ""), ("blue", "has not delivered the state of n/a")):
        harness = Harness("blue" if color == "blue" else "")
        harness.put("a", color)
        if color != "blue":
            harness.event("ADDED", "a", color)
        harness.reflector.verify_complete()
        assert expected in harness.violation, color
        assert bool(harness.violation) is bool(expected), color


# --- lists and watches


class Exchange:
    """A watch: it ends when :attr:`done` has a result."""

    def __init__(self, loop: ServerLoop, path: str, receive: Callable[[bytes], None]) -> None:
        self.done, self.path, self.receive = loop.create_future(), path, receive
        self.code, self.closed, self.resumed = 200, False, 0
        self.connection = SimpleNamespace(client_reads=True, resume_client=self._resume)

    def _resume(self) -> None:
        self.resumed += 1

    def close(self) -> None:
        self.closed = True


class Watching(Harness):
    """A running reflector, whose lists and watches the test completes."""

    def __init__(self, loop: ServerLoop) -> None:
        super().__init__()
        self.loop, self.lists, self.watches, self.failures = loop, 0, list[Exchange](), list[Response | Lost]()
        self.reflector._client = self  # type: ignore[assignment]
        self.task = loop.create_task(self.reflector.run())

    async def request(self, _method: str, _path: str) -> Response:
        self.lists += 1
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Lost):
                raise failure
            return failure
        state = self.store.invariants.history.current.get(MAPS, {})
        items = [each.object() for key, each in state.items() if key.startswith("n/")]
        content = {"metadata": {"resourceVersion": str(self.store.revision)}, "items": items}
        return Response(200, {}, msgspec.json.encode(content))

    def stream(self, path: str, receive: Callable[[bytes], None]) -> Exchange:
        self.watches.append(Exchange(self.loop, path, receive))
        return self.watches[-1]

    def wait(self, seconds: float = 3.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def end(self, code: int = 200) -> None:
        self.watches[-1].code = code
        self.watches[-1].done.set_result(None)
        self.wait()


@pytest.fixture
def watching() -> Iterator[Watching]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    found = Watching(loop)
    found.put("a")
    yield found
    found.task.cancel()
    found.wait()
    asyncio.set_event_loop(None)
    loop.close()


def test_watch_starts_at_the_version_of_the_list(watching: Watching) -> None:
    watching.wait()

    (watch,) = watching.watches
    assert "&watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=400" in watch.path
    assert (watching.lists, watching.reflector.lists, watching.reflector.copy) == (1, 1, {"n/a": 1})
    assert watching.violation == ""


@pytest.mark.parametrize(
    ("code", "error", "lists"), [(200, 0, 1), (410, 0, 2), (200, 410, 2), (500, 0, 1), (200, 500, 1)]
)
def test_collection_is_listed_again_only_after_the_version_expired(
    watching: Watching, code: int, error: int, lists: int
) -> None:
    watching.wait()
    if error:
        watching.watches[-1].receive(msgspec.json.encode({"type": "ERROR", "object": {"code": error}}) + b"\n")
    watching.end(code)
    assert (watching.lists, len(watching.watches), watching.watches[0].closed) == (lists, 2, True)

    watching.end()
    assert (watching.lists, len(watching.watches)) == (lists, 3)


def test_next_watch_starts_after_the_last_event(watching: Watching) -> None:
    watching.wait()
    watching.put("b")
    line = msgspec.json.encode(
        {"type": "ADDED", "object": watching.store.invariants.history.current[MAPS]["n/b"].object()}
    )
    for piece in (line[:9], line[9:] + b"\n", line[:5]):
        watching.watches[-1].receive(piece)
    watching.end()

    assert "resourceVersion=2&" in watching.watches[-1].path
    assert (watching.violation, watching.reflector.copy, watching.reflector.events) == ("", {"n/a": 1, "n/b": 2}, 1)


@pytest.mark.parametrize("failure", [Lost("timeout"), Response(503, {}, b"{}")])
def test_failed_list_is_repeated(watching: Watching, failure: Response | Lost) -> None:
    watching.failures.append(failure)
    watching.wait()

    assert (watching.lists, len(watching.watches)) == (2, 1)


def test_watch_that_does_not_end_is_closed(watching: Watching) -> None:
    watching.wait()
    watching.wait(420.0)
    assert len(watching.watches) == 1

    watching.wait(20.0)

    assert (len(watching.watches), watching.watches[0].closed, watching.lists) == (2, True, 1)


def test_paused_watch_is_not_read_until_resumed(watching: Watching) -> None:
    watching.reflector.pause()
    watching.reflector.resume()
    watching.wait()
    watching.reflector.pause()
    (watch,) = watching.watches
    assert not watch.connection.client_reads

    watching.reflector.resume()
    assert watch.resumed == 1


def test_list_that_is_not_a_snapshot_is_a_violation() -> None:
    def verify(revision: int, *items: tuple[str, int], started: int = 2, color: str = "") -> str:
        harness = Harness()
        harness.put("a", "red")
        harness.put("b")
        harness.put("c", namespace="other")
        harness.put("b")
        content = {
            "metadata": {"resourceVersion": str(revision)},
            "items": [
                {"metadata": {"namespace": "n", "name": name, "resourceVersion": str(version)}}
                for name, version in items
            ],
        }
        history, violations = harness.store.invariants.history, harness.store.violations
        verify_list(history, violations, "/path", MAPS, "n/", content, started, color)
        return harness.violation

    assert verify(4, ("a", 1), ("b", 4)) == verify(3, ("a", 1), ("b", 2)) == verify(2, ("a", 1), ("b", 2)) == ""
    assert verify(4, ("a", 1), color="red") == ""
    assert verify(5) == "list of /path at 5, but the store was between 2 and 4"
    assert verify(2, started=3) == "list of /path at 2, but the store was between 3 and 4"
    assert verify(4, ("a", 1), ("b", 4), ("a", 1)) == "list of /path contains n/a twice"
    assert verify(4, ("a", 1), ("b", 2)) == "list of /path at 4 is not a snapshot: n/b"
    assert verify(4, ("b", 4)) == "list of /path at 4 is not a snapshot: n/a"
