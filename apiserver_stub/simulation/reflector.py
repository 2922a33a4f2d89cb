"""Simulated watch client: lists a collection, watches it from there and verifies each event."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from apiserver_stub.simulation.client import Client, Lost
from apiserver_stub.simulation.history import Entry, StoreHistory
from apiserver_stub.simulation.violations import Violations

_PAUSE_SECONDS = 1.0
_WATCH_SECONDS = 400


COLOR = "simulated.test/color"


def has_color(found: dict[str, Any], color: str) -> bool:
    """Return whether an object has the label :data:`COLOR` with a value, or whether all are selected."""
    labels = found.get("metadata", {}).get("labels") or {}
    return not color or labels.get(COLOR) == color


class Reflector:
    """A client that maintains a copy of a collection, with a verified sequence of events.

    :param path: the path of the collection.
    :param collection: its name in the store.
    :param prefix: prefix of the keys: the namespace with a slash, or empty.
    :param color: value of the label :data:`COLOR` that selects the objects; empty for all.
    """

    def __init__(
        self,
        client: Client,
        history: StoreHistory,
        violations: Violations,
        path: str,
        collection: str,
        prefix: str,
        color: str = "",
    ) -> None:
        self._color = color
        self._query = f"?labelSelector={COLOR}%3D{color}" if color else "?"
        self._client, self._history, self._violations = client, history, violations
        self._path, self._collection, self._prefix = path, collection, prefix
        self.copy: dict[str, int] = {}
        """Resource version by key."""
        self._cursor = 0
        self._rest = b""
        self._expired = False
        self.watching: Any = None
        self.events = self.lists = 0

    async def run(self) -> None:
        """List and watch until the task is cancelled."""
        while True:
            try:
                if not self._cursor:
                    await self._list()
                if self._cursor:
                    await self._watch()
            except Lost:
                pass
            await asyncio.sleep(_PAUSE_SECONDS)

    def pause(self) -> None:
        """Stop reading from the connection."""
        if self.watching is not None:
            self.watching.connection.client_reads = False

    def resume(self) -> None:
        """Read from the connection again."""
        if self.watching is not None:
            self.watching.connection.resume_client()

    def verify_complete(self) -> None:
        """Verify that the copy equals the store."""
        state = self._history.current.get(self._collection, {})
        expected = {
            key: entry.revision
            for key, entry in state.items()
            if key.startswith(self._prefix) and has_color(entry.object(), self._color)
        }
        if self.copy != expected:
            differing = sorted(key for key in {*expected, *self.copy} if expected.get(key) != self.copy.get(key))
            self._violations.report(f"watch of {self._path} has not delivered the state of {', '.join(differing[:3])}")
        self._violations.checked += 1

    async def _list(self) -> None:
        started = self._history.revision
        response = await self._client.request("GET", self._path + self._query)
        if response.code != 200:
            return
        content = response.content
        self.lists += 1
        parts = self._path, self._collection, self._prefix, content, started, self._color
        self.copy = verify_list(self._history, self._violations, *parts)
        self._cursor = response.version

    async def _watch(self) -> None:
        self._rest, self._expired = b"", False
        start = f"{self._query}&watch=1&resourceVersion={self._cursor}"
        query = f"{start}&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}"
        self.watching = exchange = self._client.stream(self._path + query, self._receive)
        try:
            async with asyncio.timeout(_WATCH_SECONDS + 30):
                await exchange.done
        except TimeoutError:
            pass
        finally:
            exchange.close()
            self.watching = None
        if exchange.code == 410 or self._expired:
            self._cursor = 0

    def _receive(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._event(msgspec.json.decode(line))

    def _event(self, event: dict[str, Any]) -> None:
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            if found.get("code") == 410:
                self._expired = True
            elif found.get("code") not in (500, 503, 504):
                self._violations.report(f"watch of {self._path} ended with {found}")
            return
        self.events += 1
        self._violations.checked += 1
        metadata = found["metadata"]
        revision = int(metadata["resourceVersion"])
        expected, expected_type = self._next()
        if kind == "BOOKMARK":
            if expected is not None and expected.revision <= revision:
                self._violations.report(f"bookmark {revision} of {self._path} before the event {expected.revision}")
            self._cursor = max(self._cursor, revision)
            return
        key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        if expected is None:
            self._violations.report(f"watch of {self._path} from {self._cursor}: unexpected {kind} {key} {revision}")
        elif (kind, key, revision) != (expected_type, expected.key, expected.revision):
            self._violations.report(
                f"watch of {self._path} from {self._cursor}: {kind} {key} {revision} instead of "
                f"{expected_type} {expected.key} {expected.revision}"
            )
        elif expected_type in (expected.type, "ADDED") and not self._is_content(expected, found):
            self._violations.report(f"watch of {self._path}: {kind} {key} {revision} has other content")
        if kind == "DELETED":
            self.copy.pop(key, None)
        else:
            self.copy[key] = revision
        self._cursor = revision

    def _is_content(self, entry: Entry, found: dict[str, Any]) -> bool:
        """Return whether an event has the content of a change."""
        if entry.object() == found:
            return True
        before = entry.previous()
        if not self._history.varies_removals or entry.type != "DELETED" or before is None:
            return False
        before["metadata"]["resourceVersion"] = str(entry.revision)
        return before == found

    def _next(self) -> tuple[Entry | None, str]:
        """Return the next expected change, and the type of its event."""
        for entry in self._history.changes(self._collection, self._cursor):
            if not entry.key.startswith(self._prefix):
                continue
            if not self._color:
                return entry, entry.type
            before = entry.previous()
            was = before is not None and has_color(before, self._color)
            fits = entry.type != "DELETED" and has_color(entry.object(), self._color)
            if was or fits:
                return entry, "MODIFIED" if was and fits else "ADDED" if fits else "DELETED"
        return None, ""


def verify_list(
    history: StoreHistory,
    violations: Violations,
    path: str,
    collection: str,
    prefix: str,
    content: dict[str, Any],
    started: int,
    color: str = "",
) -> dict[str, int]:
    """Verify that a list is a snapshot at its resource version; return the resource versions by key.

    :param started: revision of the store before the request.
    """
    revision = int(content["metadata"]["resourceVersion"])
    violations.checked += 1
    if not started <= revision <= history.revision:
        violations.report(f"list of {path} at {revision}, but the store was between {started} and {history.revision}")
        return {}
    found = {}
    for item in content["items"]:
        metadata = item["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        if key in found:
            violations.report(f"list of {path} contains {key} twice")
        found[key] = int(metadata["resourceVersion"])
    state = history.state_at(collection, revision)
    expected = {
        key: entry.revision
        for key, entry in state.items()
        if key.startswith(prefix) and has_color(entry.object(), color)
    }
    if found != expected:
        differing = sorted(key for key in {*expected, *found} if expected.get(key) != found.get(key))
        violations.report(f"list of {path} at {revision} is not a snapshot: {', '.join(differing[:3])}")
    return found
