"""GET with ``watch``: a stream of changes; watches with the same representation share the encoded events."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.media import Format
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, expired
from apiserver_stub.kinds import tables
from apiserver_stub.schema.null_times import unset_creation_time
from apiserver_stub.storage import Change, Compacted, Record
from apiserver_stub.storage.record import with_revision, without_revision
from apiserver_stub.verbs import shards, versions
from apiserver_stub.verbs.lists import Selection, selection
from apiserver_stub.verbs.revisions import requested_version, too_large_version
from apiserver_stub.verbs.watch_topics import reader_of
from apiserver_stub.verbs.write_options import invalid_options
from nodeagent.base import apiproto

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.storage import Collection
    from apiserver_stub.storage.change_reader import ChangeReader
    from apiserver_stub.verbs.context import VerbContext

_BATCH = 200
_SHARED_SECONDS = 1.0
_BOOKMARK_SECONDS = 60.0
_BOOKMARK_BEFORE_END_SECONDS = 2.0
_TOO_OLD = "The resourceVersion for the provided watch is too old."


class Watch:
    """One watch, with its start, selection and representation.

    :param exists: the revision of the request may exist; if the store has not reached it, the watch sends only later
        changes.
    """

    def __init__(self, context: VerbContext, request: Request, resource: Resource, *, exists: bool = True) -> None:
        query = request.query
        self._context, self._resource = context, resource
        self._collection: Collection = context.store.collection(resource.storage)
        self._selection: Selection = selection(request, resource)
        self._format: Format = request.format
        self._api_domain = request.identity.api_domain
        self._include = tables.include_object(query)
        self._bookmarks = query.flag("allowWatchBookmarks")
        self._initial: bool | None = query.flag("sendInitialEvents") if "sendInitialEvents" in query else None
        _check_options(request, self._initial, lists=context.settings.watch_lists)
        if self._initial is None and context.settings.watch_lists and query.get("resourceVersion") in ("", "0"):
            self._initial = True  # A bookmark marks the end of the initial events.
        if context.settings.selects_shards:
            shard = shards.selector_of(query.get(shards.PARAMETER))
            self._selection = replace(self._selection, shard=shard)
        self._revision = requested_version(
            query.get("resourceVersion"), cached=True
        )  # Upstream has these errors without a watch cache too.
        query.integer("limit")  # Only validated.
        seconds = query.integer("timeoutSeconds")
        minimum = context.settings.min_watch_seconds
        self.seconds = float(seconds) if seconds else minimum * (1 + random.random())  # noqa: S311 - spread of load
        # There is no await up to the first read of the log, so no change is lost after the list.
        self._columns_sent = False
        self._error: ApiError | None = None
        self._first: list[Record] = []
        position, latest = self._collection.end, context.store.revision_of(resource.storage)
        if self._revision > latest and (self._initial or not exists):
            self._error = too_large_version(self._revision, latest, cached=True)
        elif self._initial or (self._initial is None and self._revision == 0):
            self._first = self._current()
        elif self._revision:
            try:
                position = self._collection.position_after(self._revision)
            except Compacted as error:
                cached = context.settings.is_cached(resource.plural, resource.group)
                text = f"too old resource version: {self._revision} ({error.oldest})" if cached else _TOO_OLD
                self._error = expired(text)
        self._reader = reader_of(self._collection, resource, self._selection, position)

    @property
    def content_type(self) -> str:
        return f"{self._format.encoding};stream=watch" if self._format.is_protobuf else media.JSON

    @property
    def is_text(self) -> bool:
        return not self._format.is_protobuf

    def messages(self, frames: bytes) -> Iterator[bytes]:
        """Yield each event in *frames*, which :meth:`frames` yielded, without delimiters and length prefixes."""
        if self.is_text:
            yield from frames.rstrip(b"\n").split(b"\n")
            return
        while frames:
            end = 4 + int.from_bytes(frames[:4], "big")
            yield frames[4:end]
            frames = frames[end:]

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield frames, in batches, until the timeout of the watch or until changes it has not read were compacted."""
        if self._error is not None:
            yield self._error_frame(self._error)
            return
        for start in range(0, len(self._first), _BATCH):
            chunk = self._first[start : start + _BATCH]
            if self._resource.converter is not None:
                try:
                    chunk = self._selected(await versions.records(self._resource, chunk))
                except ApiError as error:
                    yield self._error_frame(error)
                    return
            if chunk:
                yield b"".join(self._frame("ADDED", record) for record in chunk)
        self._first = []
        if self._initial and self._bookmarks:
            yield self._bookmark(initial_end=True)
        end = time.monotonic() + self.seconds
        next_bookmark = time.monotonic() + _BOOKMARK_SECONDS
        marked = self._context.store.revision_of(self._resource.storage)
        with closing(self._reader) as reader, _ChangeWaiter(reader) as waiter, self._counted():
            while (left := end - time.monotonic()) > 0:
                try:
                    changes = reader.read(_BATCH)
                except Compacted:
                    yield self._error_frame(expired(_TOO_OLD))
                    return
                if changes and changes[0].revision <= self._revision:
                    changes = [change for change in changes if change.revision > self._revision]
                    if not changes:
                        continue
                if changes:
                    try:
                        converted = await self._converted(changes)
                    except ApiError as error:
                        yield self._error_frame(error)
                        return
                    frames = [frame for change in converted if (frame := self._change_frame(change))]
                    if frames:
                        yield b"".join(frames)
                    continue
                deadline = end
                if self._bookmarks:
                    last_call = end - _BOOKMARK_BEFORE_END_SECONDS
                    deadline = min(next_bookmark, last_call if left > _BOOKMARK_BEFORE_END_SECONDS else end)
                if not await waiter.wait(deadline) and self._bookmarks:
                    next_bookmark = time.monotonic() + _BOOKMARK_SECONDS
                    latest = self._context.store.revision_of(self._resource.storage)
                    if latest != marked and latest >= self._revision:
                        marked = latest
                        yield self._bookmark()

    def _counted(self) -> AbstractContextManager[None]:
        """Return a block in which the watch is counted if it is one of a shard."""
        if self._selection.shard is None:
            return nullcontext()
        return self._context.shard_counts.watching(self._resource.group, self._resource.plural)

    def _current(self) -> list[Record]:
        chosen = self._selection
        found = self._collection.select(f"{chosen.namespace}/" if chosen.namespace else "")
        if chosen.name is not None:
            found = [record for record in found if chosen.covers_key(record.key)]
        return found if self._resource.converter is not None else self._selected(found)

    def _selected(self, found: Sequence[Record]) -> list[Record]:
        """Return the records that match the selectors, in the version of the watch."""
        return list(self._selection.select(found))

    async def _converted(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return *changes* in the version of the watch; other than those of the selected keys may be missing.

        :raises ApiError: 500, the conversion failed.
        """
        if self._resource.converter is None:
            return changes
        chosen = self._selection
        found = [change for change in changes if chosen.covers_key(change.record.key)]
        return await versions.changes(self._resource, found, previous=not chosen.everything)

    def _change_frame(self, change: Change) -> bytes | None:
        """Return the frame of *change*; objects that start or cease to match the selectors are added or deleted."""
        chosen, record = self._selection, change.record
        if not chosen.covers_key(record.key):
            return None
        if chosen.everything:
            return self._shared_frame(change, change.type, record)
        matches = change.type != "DELETED" and self._matches(change, record)
        matched = change.previous is not None and self._matches(change, change.previous)
        if matches:
            return self._shared_frame(change, "MODIFIED" if matched else "ADDED", record)
        if not matched or change.previous is None:
            return None
        if change.type == "DELETED":
            return self._shared_frame(change, "DELETED", record)
        old = with_revision(without_revision(change.previous.data), record.revision)
        return self._shared_frame(change, "DELETED", Record(record.key, record.revision, old))

    def _matches(self, change: Change, record: Record) -> bool:
        shared, key = _shared(change), (self._resource.api_version, id(record))
        obj = shared.get(key)
        if obj is None:
            obj = shared[key] = self._resource.read(record)
        shard = self._selection.shard
        if shard is not None and not shard.matches(obj["metadata"]):
            self._context.shard_counts.filtered[self._resource.group, self._resource.plural] += 1
            return False
        return self._selection.matches_object(obj)

    def _shared_frame(self, change: Change, type_: str, record: Record) -> bytes:
        shared = _shared(change)
        key = (self._resource.api_version, type_, self._format, self._include, self._columns_sent)
        frame: bytes | None = shared.get(key)
        if frame is None:
            frame = shared[key] = self._frame(type_, record)
        self._columns_sent = True
        return frame

    def _frame(self, type_: str, record: Record) -> bytes:
        if self._format.plain_json:
            return b'{"type":"%s","object":%s}\n' % (type_.encode(), self._resource.render(record))
        return self._encode(type_, self._shape(self._resource.read(record)))

    def _shape(self, obj: Object) -> Object:
        shape, version = self._format.shape, self._format.shape_version
        if shape == "Table":
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            columns, self._columns_sent = not self._columns_sent or self._resource.repeats_columns, True
            return tables.table(self._resource, [obj], metadata, self._include, version, columns=columns)
        return tables.partial(obj, version) if shape else obj

    def _encode(self, type_: str, obj: Object) -> bytes:
        if self._format.is_protobuf:
            return apiproto.encode_watch_frame(type_, apiproto.encode(obj, self._api_domain))
        return objects.encode({"type": type_, "object": obj}) + b"\n"

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        shows_null = self._context.settings.shows_null_times
        metadata: dict[str, Any] = {
            "resourceVersion": str(self._context.store.revision_of(self._resource.storage)),
            **unset_creation_time(shows_null=shows_null),
        }
        if initial_end:
            metadata["annotations"] = {self._api_domain + "/initial-events-end": "true"}
        kind, api_version = self._resource.kind, self._resource.api_version
        schema = self._resource.schema_in(self._api_domain) if self.is_text else None
        blank = schema.shape.blank() if schema is not None else {}
        obj = {"kind": kind, "apiVersion": api_version, **blank, "metadata": metadata}
        if schema is not None and not shows_null:
            schema.omit_null_times(obj)
        return self._encode("BOOKMARK", self._shape(obj))

    def _error_frame(self, error: ApiError) -> bytes:
        return self._encode("ERROR", error.body())


class _ChangeWaiter:
    """Waits for changes of a reader; one timer serves many waits, as most end long before their deadline."""

    def __init__(self, reader: ChangeReader) -> None:
        self._reader = reader
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[None]

    def __enter__(self) -> _ChangeWaiter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def wait(self, deadline: float) -> bool:
        """Wait for a change until *deadline* (monotonic time); return whether there is one.

        A later deadline does not delay the timer of an earlier one, after which :meth:`wait` returns.
        """
        self._waiting = self._reader.next_change()
        if self._timer is None:
            seconds = max(0.0, deadline - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        try:
            await self._waiting
        finally:
            self._reader.abandon(self._waiting)
        return self._reader.has_changes

    def _expire(self) -> None:
        self._timer = None
        if not self._waiting.done():
            self._waiting.set_result(None)


def _shared(change: Change) -> dict[Any, Any]:
    """Return the cache of *change*, which all watches share briefly."""
    if change.shared is None:
        change.shared = {}
        asyncio.get_running_loop().call_later(_SHARED_SECONDS, _drop_shared, change)
    return change.shared


def _drop_shared(change: Change) -> None:
    """Drop the cache of *change*; a later watch creates it again."""
    change.shared = None


def _check_options(request: Request, initial: bool | None, *, lists: bool) -> None:
    match = request.query.get("resourceVersionMatch")
    field = "resourceVersionMatch"
    wrong: list[tuple[str, str, str]] = []
    if initial is not None and match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        wrong.append(("FieldValueForbidden", text, field))
    if initial is not None and not lists:
        text = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        wrong.append(("FieldValueForbidden", text, "sendInitialEvents"))
    if initial is None and match:
        text = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        wrong.append(("FieldValueForbidden", text, field))
    if match and match != "NotOlderThan":
        text = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        wrong.append(("FieldValueNotSupported", text, field))
    if match and request.query.get("continue"):
        text = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        wrong.append(("FieldValueForbidden", text, field))
    if wrong:
        raise invalid_options(request, "ListOptions", wrong)
