"""An API server in memory, seen through the client's contract."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from nodeagent.base.aio import Clock
from nodeagent.base.selectors import parse_field_selector, parse_label_selector
from nodeagent.contracts.api import PODS, Listing, PatchType, Resource, WatchEvent, WatchType
from nodeagent.errors import ApiConflict, ApiError, ApiGone, ApiNotFound, ApiUnavailable
from nodeagent.model.meta import wire_time
from nodeagent.model.wire import to_wire
from nodeagent.testing.clock import FakeClock
from nodeagent.testing.faults import Faults
from nodeagent.testing.patches import apply_patch

T = TypeVar("T")
_JsonPatch = list[Any]
"""The class below has a method called ``list``."""
_WITH_STATUS = {"Pod", "Node"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as the server saw it."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    type: WatchType
    resource: Resource
    object: dict[str, Any]
    before: dict[str, Any] | None


class FakeApi(Faults):
    """An :class:`~nodeagent.contracts.api.Api` with its server in memory.

    Objects have resource versions, UIDs and creation times; watches resume and expire; pods are deleted gracefully.
    Failures are ordered by verb: ``api.fail("patch", ApiConflict("changed", code=409))``.

    :ivar requests: every request, also those that failed.
    :ivar outage: while ``True`` every request fails with :class:`ApiUnavailable`.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.watches = 0
        self._clock: Clock = clock or FakeClock()
        self._objects: dict[tuple[Resource, str, str], dict[str, Any]] = {}
        self._changes: list[_Change] = []
        self._version = 0
        self._oldest = 0
        self._uids = itertools.count(1)
        self._outage = False
        self._generation = 0
        self._news = asyncio.Event()

    # --- what a test does with it -----------------------------------------------------------------------------

    @property
    def outage(self) -> bool:
        return self._outage

    @outage.setter
    def outage(self, value: bool) -> None:
        self._outage = value
        self._wake()

    def put(self, resource: Resource, obj: Any, namespace: str = "") -> dict[str, Any]:
        """Create or replace an object, as another client would; a struct or a dict in the wire's shape."""
        plain = copy.deepcopy(dict(to_wire(obj)))
        meta = plain.setdefault("metadata", {})
        space = (namespace or meta.get("namespace", "default") or "default") if resource.namespaced else ""
        known = self._objects.get((resource, space, meta["name"]))
        return self._store(resource, space, plain, known)

    def remove(self, resource: Resource, name: str, namespace: str = "default") -> None:
        """Remove an object at once, as another client would."""
        self._drop(resource, namespace if resource.namespaced else "", name)

    def find(self, resource: Resource, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return a copy of an object without a request."""
        found = self._objects.get((resource, namespace if resource.namespaced else "", name))
        return copy.deepcopy(found)

    def all(self, resource: Resource) -> Sequence[dict[str, Any]]:
        """Return copies of all objects of a kind without a request."""
        return [copy.deepcopy(obj) for (kind, _, _), obj in self._objects.items() if kind == resource]

    def expire(self) -> None:
        """Forget the past: watches from an older resource version get 410, open ones too."""
        self._version += 1
        self._oldest = self._version
        self._changes.clear()
        self._generation += 1
        self._wake()

    def end_watches(self) -> None:
        """End every open watch, as the server does now and then."""
        self._generation += 1
        self._wake()

    def made(self, verb: str, resource: Resource | None = None) -> Sequence[Request]:
        """Return the requests of one verb, in order."""
        return [r for r in self.requests if r.verb == verb and resource in (None, r.resource)]

    # --- the contract -----------------------------------------------------------------------------------------

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T], cached: bool = False
    ) -> T:
        await self._enter(Request("get", resource, namespace, name))
        return _convert(self._known(resource, namespace, name), into)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        field_selector: str = "",
        label_selector: str = "",
        cached: bool = False,
    ) -> Listing[T]:
        await self._enter(Request("list", resource, namespace))
        matches = _Matcher(namespace, field_selector, label_selector)
        found = [obj for (kind, _, _), obj in self._objects.items() if kind == resource and matches(obj)]
        return Listing([_convert(obj, into) for obj in found], str(self._version))

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        resource_version: str,
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        matches = _Matcher(namespace, field_selector, label_selector)
        return self._watch(resource, namespace, into, resource_version, matches)

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
        name: str = "",
        decode: bool = True,
    ) -> dict[str, Any]:
        plain: dict[str, Any] = copy.deepcopy(dict(to_wire(obj)))
        meta = plain.setdefault("metadata", {})
        wanted = name or meta.get("name", "")
        await self._enter(Request("create", resource, namespace, wanted, subresource, plain))
        if subresource == "token":
            return self._token(resource, namespace, name, plain)
        if subresource:
            return plain
        if not wanted and meta.get("generateName"):
            wanted = f"{meta['generateName']}{next(self._uids):05d}"
        meta["name"] = wanted
        space = namespace or meta.get("namespace", "")
        if (resource, space, wanted) in self._objects:
            raise ApiConflict(f"{resource.plural} {wanted!r} already exists", code=409, reason="AlreadyExists")
        return self._store(resource, space, plain, None)

    async def update(
        self, resource: Resource, name: str, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> dict[str, Any]:
        plain: dict[str, Any] = copy.deepcopy(dict(to_wire(obj)))
        await self._enter(Request("update", resource, namespace, name, subresource, plain))
        known = self._known(resource, namespace, name)
        version = plain.get("metadata", {}).get("resourceVersion")
        if version and version != known["metadata"]["resourceVersion"]:
            raise ApiConflict(f"{resource.plural} {name!r} has been modified", code=409)
        return self._store(resource, namespace, _limited(resource, known, plain, subresource), known)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | _JsonPatch,
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        decode: bool = True,
    ) -> dict[str, Any]:
        await self._enter(Request("patch", resource, namespace, name, subresource, to_wire(patch)))
        known = self._known(resource, namespace, name)
        wanted_uid = to_wire(patch).get("metadata", {}).get("uid") if isinstance(patch, Mapping) else None
        if wanted_uid and wanted_uid != known["metadata"]["uid"]:
            raise ApiConflict(f"{resource.plural} {name!r} has another uid", code=409)
        changed = apply_patch(known, to_wire(patch), patch_type)
        return self._store(resource, namespace, _limited(resource, known, changed, subresource), known)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        await self._enter(Request("delete", resource, namespace, name, "", {"grace": grace_seconds, "uid": uid}))
        known = self._known(resource, namespace, name)
        if uid and uid != known["metadata"]["uid"]:
            raise ApiConflict(f"{resource.plural} {name!r} has another uid", code=409)
        grace = grace_seconds
        if grace is None:
            grace = known.get("spec", {}).get("terminationGracePeriodSeconds", 30)
        if resource != PODS or grace == 0 or not known.get("spec", {}).get("nodeName"):
            self._drop(resource, namespace, name)
            return
        before = known["metadata"].get("deletionGracePeriodSeconds")
        if before is None or grace < before:
            changed = copy.deepcopy(known)
            changed["metadata"]["deletionGracePeriodSeconds"] = grace
            changed["metadata"]["deletionTimestamp"] = wire_time(self._clock.wall() + timedelta(seconds=grace))
            self._store(resource, namespace, changed, known)

    # --- inside -----------------------------------------------------------------------------------------------

    async def _enter(self, request: Request) -> None:
        self.requests.append(request)
        await self._pass(request.verb)
        if self._outage:
            raise ApiUnavailable("the API server does not answer")

    async def _watch(
        self, resource: Resource, namespace: str, into: type[T], resource_version: str, matches: _Matcher
    ) -> AsyncIterator[WatchEvent[T]]:
        await self._enter(Request("watch", resource, namespace))
        seen, generation = int(resource_version or self._version), self._generation
        self.watches += 1
        try:
            while True:
                if self._outage:
                    raise ApiUnavailable("the watch was cut off")
                if seen < self._oldest:
                    raise ApiGone(f"too old resource version: {seen} ({self._oldest})", code=410)
                for change in [c for c in self._changes if c.version > seen]:
                    seen = change.version
                    event = matches.event(change) if change.resource == resource else None
                    if event is not None:
                        shown = _convert(change.object, into)
                        yield WatchEvent(event, shown, str(change.version))
                if generation != self._generation:
                    return
                news = self._news
                await news.wait()
        finally:
            self.watches -= 1

    def _known(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        found = self._objects.get((resource, namespace if resource.namespaced else "", name))
        if found is None:
            raise ApiNotFound(f'{resource.plural} "{name}" not found', code=404)
        return found

    def _store(
        self, resource: Resource, namespace: str, obj: dict[str, Any], before: dict[str, Any] | None
    ) -> dict[str, Any]:
        self._version += 1
        meta = obj.setdefault("metadata", {})
        if resource.namespaced:
            meta["namespace"] = namespace
        meta["resourceVersion"] = str(self._version)
        meta["uid"] = before["metadata"]["uid"] if before else meta.get("uid") or f"uid-{next(self._uids)}"
        meta.setdefault("creationTimestamp", wire_time(self._clock.wall()))
        obj.setdefault("kind", resource.kind)
        obj.setdefault("apiVersion", f"{resource.group}/{resource.version}" if resource.group else resource.version)
        self._objects[resource, meta.get("namespace", ""), meta["name"]] = obj
        type_ = WatchType.MODIFIED if before else WatchType.ADDED
        self._changes.append(_Change(self._version, type_, resource, copy.deepcopy(obj), before))
        self._wake()
        return copy.deepcopy(obj)

    def _drop(self, resource: Resource, namespace: str, name: str) -> None:
        gone = copy.deepcopy(self._objects.pop((resource, namespace if resource.namespaced else "", name)))
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._changes.append(_Change(self._version, WatchType.DELETED, resource, gone, gone))
        self._wake()

    def _token(self, resource: Resource, namespace: str, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        self._known(resource, namespace, name)
        seconds = asked.get("spec", {}).get("expirationSeconds", 3600)
        until = wire_time(self._clock.wall() + timedelta(seconds=seconds))
        return {**asked, "status": {"token": f"token-{next(self._uids)}", "expirationTimestamp": until}}

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class _Matcher:
    """Says whether an object belongs to a list or watch."""

    def __init__(self, namespace: str, fields: str, labels: str) -> None:
        self._namespace = namespace
        try:
            self._fields, self._labels = parse_field_selector(fields), parse_label_selector(labels)
        except ValueError as error:
            raise ApiError(str(error), code=400, reason="BadRequest") from error

    def __call__(self, obj: Mapping[str, Any]) -> bool:
        meta = obj.get("metadata", {})
        return (
            self._namespace in ("", meta.get("namespace", ""))
            and self._labels.matches(meta.get("labels"))
            and all((_at(obj, term.field) == term.value) is term.equal for term in self._fields.terms)
        )

    def event(self, change: _Change) -> WatchType | None:
        """Return what *change* is to this watch: an object that leaves the selection counts as deleted."""
        matches, matched = self(change.object), change.before is not None and self(change.before)
        if change.type is WatchType.DELETED:
            return WatchType.DELETED if matches else None
        if matches:
            return WatchType.MODIFIED if matched else WatchType.ADDED
        return WatchType.DELETED if matched else None


def _at(obj: Any, path: str) -> str:
    for part in path.split("."):
        obj = obj.get(part, "") if isinstance(obj, Mapping) else ""
    return str(obj)


def _limited(resource: Resource, known: dict[str, Any], wanted: dict[str, Any], subresource: str) -> dict[str, Any]:
    """Return what a write may change: the status through its subresource alone, and nothing else there."""
    if resource.kind not in _WITH_STATUS:
        return wanted
    keep = copy.deepcopy(known)
    if subresource == "status":
        keep["status"] = wanted.get("status", {})
        meta = wanted.get("metadata", {})
        keep["metadata"] = {**keep["metadata"], **{k: meta[k] for k in ("annotations", "labels") if k in meta}}
        return keep
    return {**wanted, **({"status": keep["status"]} if "status" in keep else {})}


def _convert(obj: Any, into: type[T]) -> T:
    return msgspec.convert(copy.deepcopy(obj), into)
