"""Fake API client with an in-memory API server."""

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
"""``FakeApi.list`` shadows the built-in type in annotations of that class."""
_WITH_STATUS = {"Pod", "Node"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as received by the server."""

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
    """An :class:`~nodeagent.contracts.api.Api` with an in-memory server.

    Objects have resource versions, UIDs and creation times; watches resume and expire; pods are deleted gracefully.
    Failures are injected by verb: ``api.fail("patch", ApiConflict("changed", code=409))``.

    :ivar requests: all requests, failed ones included.
    :ivar outage: while it is true, every request fails with :class:`ApiUnavailable`.
    :ivar watches: the number of open watches.
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
        self._changed = asyncio.Event()

    # --- controls for tests -----------------------------------------------------------------------------------

    @property
    def outage(self) -> bool:
        return self._outage

    @outage.setter
    def outage(self, value: bool) -> None:
        self._outage = value
        self._notify()

    def put(self, resource: Resource, obj: Any, namespace: str = "") -> dict[str, Any]:
        """Create or replace an object as another client would.

        :param obj: a struct, or a dict in the wire format.
        """
        plain = copy.deepcopy(dict(to_wire(obj)))
        meta = plain.setdefault("metadata", {})
        space = (namespace or meta.get("namespace", "default") or "default") if resource.namespaced else ""
        return self._store(resource, space, plain, self._objects.get((resource, space, meta["name"])))

    def remove(self, resource: Resource, name: str, namespace: str = "default") -> None:
        """Remove an object immediately, as another client would."""
        self._drop(resource, namespace if resource.namespaced else "", name)

    def find(self, resource: Resource, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return a copy of an object, without recording a request."""
        obj = self._objects.get((resource, namespace if resource.namespaced else "", name))
        return copy.deepcopy(obj)

    def all(self, resource: Resource) -> Sequence[dict[str, Any]]:
        """Return copies of all objects of a resource, without recording a request."""
        return [copy.deepcopy(obj) for (kind, _, _), obj in self._objects.items() if kind == resource]

    def expire(self) -> None:
        """Discard the history: watches from an older resource version fail with 410, open ones included."""
        self._version += 1
        self._oldest = self._version
        self._changes.clear()
        self._generation += 1
        self._notify()

    def end_watches(self) -> None:
        """Close all open watches, as a server does periodically."""
        self._generation += 1
        self._notify()

    def made(self, verb: str, resource: Resource | None = None) -> Sequence[Request]:
        """Return the requests with *verb*, in order."""
        return [r for r in self.requests if r.verb == verb and resource in (None, r.resource)]

    # --- implementation of the contract -----------------------------------------------------------------------

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T], cached: bool = False
    ) -> T:
        await self._enter(Request("get", resource, namespace, name))
        return _convert(self._existing(resource, namespace, name), into)

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
        objects = [obj for (kind, _, _), obj in self._objects.items() if kind == resource and matches(obj)]
        return Listing([_convert(obj, into) for obj in objects], str(self._version))

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        resource_version: str,
        field_selector: str = "",
        label_selector: str = "",
        patience_seconds: float = 0.0,
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
        new_name = name or meta.get("name", "")
        await self._enter(Request("create", resource, namespace, new_name, subresource, plain))
        if subresource == "token":
            return self._token(resource, namespace, name, plain)
        if subresource:
            return plain
        if not new_name and meta.get("generateName"):
            new_name = f"{meta['generateName']}{next(self._uids):05d}"
        meta["name"] = new_name
        space = namespace or meta.get("namespace", "")
        if (resource, space, new_name) in self._objects:
            raise ApiConflict(f"{resource.plural} {new_name!r} already exists", code=409, reason="AlreadyExists")
        return self._store(resource, space, plain, None)

    async def update(
        self, resource: Resource, name: str, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> dict[str, Any]:
        plain: dict[str, Any] = copy.deepcopy(dict(to_wire(obj)))
        await self._enter(Request("update", resource, namespace, name, subresource, plain))
        existing = self._existing(resource, namespace, name)
        version = plain.get("metadata", {}).get("resourceVersion")
        if version and version != existing["metadata"]["resourceVersion"]:
            raise ApiConflict(f"{resource.plural} {name!r} has been modified", code=409)
        return self._store(resource, namespace, _permitted(resource, existing, plain, subresource), existing)

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
        existing = self._existing(resource, namespace, name)
        expected_uid = to_wire(patch).get("metadata", {}).get("uid") if isinstance(patch, Mapping) else None
        if expected_uid and expected_uid != existing["metadata"]["uid"]:
            raise ApiConflict(f"{resource.plural} {name!r} has another uid", code=409)
        changed = apply_patch(existing, to_wire(patch), patch_type)
        return self._store(resource, namespace, _permitted(resource, existing, changed, subresource), existing)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, field_selector: str = "", label_selector: str = ""
    ) -> None:
        body = {"fieldSelector": field_selector, "labelSelector": label_selector}
        await self._enter(Request("deletecollection", resource, namespace, "", "", body))
        listing = await self.list(
            resource, namespace, into=dict, field_selector=field_selector, label_selector=label_selector
        )
        for item in listing.items:
            self._drop(resource, item["metadata"].get("namespace", ""), item["metadata"]["name"])

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        await self._enter(Request("delete", resource, namespace, name, "", {"grace": grace_seconds, "uid": uid}))
        existing = self._existing(resource, namespace, name)
        if uid and uid != existing["metadata"]["uid"]:
            raise ApiConflict(f"{resource.plural} {name!r} has another uid", code=409)
        grace = grace_seconds
        if grace is None:
            grace = existing.get("spec", {}).get("terminationGracePeriodSeconds", 30)
        if resource != PODS or grace == 0 or not existing.get("spec", {}).get("nodeName"):
            self._drop(resource, namespace, name)
            return
        before = existing["metadata"].get("deletionGracePeriodSeconds")
        if before is None or grace < before:
            changed = copy.deepcopy(existing)
            changed["metadata"]["deletionGracePeriodSeconds"] = grace
            changed["metadata"]["deletionTimestamp"] = wire_time(self._clock.wall() + timedelta(seconds=grace))
            self._store(resource, namespace, changed, existing)

    # --- internals --------------------------------------------------------------------------------------------

    async def _enter(self, request: Request) -> None:
        self.requests.append(request)
        await self._pass(request.verb)
        if self._outage:
            raise ApiUnavailable("the API server does not respond")

    async def _watch(
        self, resource: Resource, namespace: str, into: type[T], resource_version: str, matches: _Matcher
    ) -> AsyncIterator[WatchEvent[T]]:
        await self._enter(Request("watch", resource, namespace))
        seen, generation = int(resource_version or self._version), self._generation
        self.watches += 1
        try:
            while True:
                if self._outage:
                    raise ApiUnavailable("the watch was interrupted")
                if seen < self._oldest:
                    raise ApiGone(f"too old resource version: {seen} ({self._oldest})", code=410)
                for change in [c for c in self._changes if c.version > seen]:
                    seen = change.version
                    event = matches.event(change) if change.resource == resource else None
                    if event is not None:
                        yield WatchEvent(event, _convert(change.object, into), str(change.version))
                if generation != self._generation:
                    return
                await self._changed.wait()
        finally:
            self.watches -= 1

    def _existing(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        obj = self._objects.get((resource, namespace if resource.namespaced else "", name))
        if obj is None:
            raise ApiNotFound(f'{resource.plural} "{name}" not found', code=404)
        return obj

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
        self._notify()
        return copy.deepcopy(obj)

    def _drop(self, resource: Resource, namespace: str, name: str) -> None:
        deleted = copy.deepcopy(self._objects.pop((resource, namespace if resource.namespaced else "", name)))
        self._version += 1
        deleted["metadata"]["resourceVersion"] = str(self._version)
        self._changes.append(_Change(self._version, WatchType.DELETED, resource, deleted, deleted))
        self._notify()

    def _token(self, resource: Resource, namespace: str, name: str, request: dict[str, Any]) -> dict[str, Any]:
        self._existing(resource, namespace, name)
        seconds = request.get("spec", {}).get("expirationSeconds", 3600)
        expires_at = wire_time(self._clock.wall() + timedelta(seconds=seconds))
        return {**request, "status": {"token": f"token-{next(self._uids)}", "expirationTimestamp": expires_at}}

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Matcher:
    """Selector of a list or watch: namespace, field selector and label selector."""

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
        """Return the type of *change* for this watch; an object that no longer matches is reported as deleted."""
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


def _permitted(resource: Resource, existing: dict[str, Any], new: dict[str, Any], subresource: str) -> dict[str, Any]:
    """Return *new* without changes that are not permitted: the status changes only through its subresource."""
    if resource.kind not in _WITH_STATUS:
        return new
    result = copy.deepcopy(existing)
    if subresource == "status":
        result["status"] = new.get("status", {})
        meta = new.get("metadata", {})
        result["metadata"] = {**result["metadata"], **{k: meta[k] for k in ("annotations", "labels") if k in meta}}
        return result
    return {**new, **({"status": result["status"]} if "status" in result else {})}


def _convert(obj: Any, into: type[T]) -> T:
    return msgspec.convert(copy.deepcopy(obj), into)
