"""Simulated API server: objects with resource versions, watches and the errors of a real server, as HTTP responses."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from nodeagent.apiclient.transport import Request, Response
from nodeagent.base.selectors import parse_field_selector, parse_label_selector
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.trace import Trace
from nodeagent.contracts.api import PatchType
from nodeagent.errors import ApiError
from nodeagent.model.meta import wire_time
from nodeagent.testing.patches import apply_patch

JSON = {"content-type": "application/json"}
HISTORY = 300
"""Number of changes from which a watch can resume."""
PODS, CONFIG_MAPS = "/api/v1/pods", "/api/v1/configmaps"
NODES, LEASES = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/leases"
_MAX_EVENTS = 200
_WITH_STATUS = {"pods", "nodes"}
Object = dict[str, Any]


class Rejection(Exception):
    """An error response of the server."""

    def __init__(self, code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.headers = code, reason, message, dict(headers or {})

    def response(self) -> Response:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.code}
        body = msgspec.json.encode({**status, "reason": self.reason, "message": self.message})
        return Response(self.code, {**JSON, **self.headers}, body)


@dataclass(frozen=True, slots=True)
class Target:
    """Address of a collection or object."""

    collection: str
    """Path without namespace, such as ``/api/v1/pods``."""
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]

    @property
    def plural(self) -> str:
        return self.collection.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the store."""

    version: int
    type: str
    collection: str
    object: Object
    before: Object | None


@dataclass(eq=False, slots=True)
class Watch:
    """An open watch; *queue* receives type, object and line of each event, and ``None`` at its end."""

    target: Target
    matches: Callable[[Object], bool]
    queue: asyncio.Queue[tuple[str, Object, bytes] | None] = field(default_factory=asyncio.Queue)


class SimulatedApiServer:
    """API server in memory.

    :ivar changed: called with each change, for invariants.
    :ivar objects: objects by collection, then by namespace and name.
    """

    def __init__(self, seed: object, clock: SimulatedClock, trace: Trace) -> None:
        self.random = random.Random(f"{seed}/apiserver")
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}
        self.watches: list[Watch] = []
        self.changed: Callable[[Change], None] = lambda _: None
        self._clock, self._trace = clock, trace
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._version, self._oldest = 1, 0
        self._uids = itertools.count(1)

    # --- other clients ----------------------------------------------------------------------------------------

    def create(self, collection: str, obj: Object, namespace: str = "") -> Object:
        """Create an object as another client does.

        :raises Rejection: the server rejects it.
        """
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = f"{meta['generateName']}{next(self._uids):05d}"
        key = (namespace, meta["name"])
        if key in self.objects.get(collection, {}):
            raise Rejection(409, "AlreadyExists", f"{collection} {meta['name']!r} already exists")
        return self._store(collection, namespace, obj, None)

    def find(self, collection: str, namespace: str, name: str) -> Object | None:
        """Return an object, which must not be changed."""
        return self.objects.get(collection, {}).get((namespace, name))

    def modify(self, collection: str, namespace: str, name: str, change: Callable[[Object], None]) -> None:
        """Change an object as another client does, if it exists."""
        existing = self.find(collection, namespace, name)
        if existing is not None:
            changed = copy.deepcopy(existing)
            change(changed)
            self._store(collection, namespace, changed, existing)

    def delete(self, collection: str, namespace: str, name: str, grace: int | None, uid: str = "") -> None:
        """Delete an object, gracefully if it is a pod of a node.

        :raises Rejection: it does not exist, or has another UID.
        """
        existing = self._existing(Target(collection, namespace, name, "", {}))
        if uid and uid != existing["metadata"]["uid"]:
            raise Rejection(409, "Conflict", "the UID in the precondition does not match")
        spec = existing.get("spec", {})
        if grace is None:
            grace = spec.get("terminationGracePeriodSeconds", 30)
        mirror = "kubernetes.io/config.mirror" in (existing["metadata"].get("annotations") or {})
        finished = (existing.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if collection != PODS or grace == 0 or not spec.get("nodeName") or mirror or finished:
            self._drop(collection, namespace, name)
            return
        before = existing["metadata"].get("deletionGracePeriodSeconds")
        if before is None or grace < before:
            changed = copy.deepcopy(existing)
            changed["metadata"]["deletionGracePeriodSeconds"] = grace
            deadline = self._clock.true_time() + timedelta(seconds=grace)
            changed["metadata"]["deletionTimestamp"] = wire_time(deadline)
            self._store(collection, namespace, changed, existing)

    def compact(self) -> None:
        """Discard the history, so that watches cannot resume from an earlier version."""
        self._version += 1
        self._oldest = self._version
        self._history.clear()

    def end_watches(self) -> None:
        """Close all open watches."""
        for watch in self.watches:
            watch.queue.put_nowait(None)
        self.watches.clear()

    # --- requests ---------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Response:
        """Return the response to a request other than a watch."""
        try:
            return self._handle(request)
        except Rejection as rejection:
            return rejection.response()

    def open(self, request: Request) -> Watch:
        """Open a watch.

        :raises Rejection: the server rejects it.
        """
        target = parse_target(request.target)
        matches = _matcher(target)
        since = int(target.query.get("resourceVersion") or self._version)
        if since < self._oldest:
            raise Rejection(410, "Expired", f"too old resource version: {since} ({self._oldest})")
        watch = Watch(target, matches)
        for change in self._history:
            if change.version > since:
                _deliver(watch, change)
        self.watches.append(watch)
        return watch

    def _handle(self, request: Request) -> Response:
        target = parse_target(request.target)
        if request.target == "/version":
            return _ok({"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
        match request.method:
            case "GET" if target.name:
                return _ok(self._existing(target))
            case "GET":
                return self._list(target)
            case "POST":
                return self._post(target, msgspec.json.decode(request.body))
            case "PUT":
                return self._put(target, msgspec.json.decode(request.body))
            case "PATCH":
                return self._patch(target, request)
            case "DELETE" if target.name:
                options = msgspec.json.decode(request.body) if request.body else {}
                uid = (options.get("preconditions") or {}).get("uid", "")
                self.delete(target.collection, target.namespace, target.name, options.get("gracePeriodSeconds"), uid)
                return _ok({"kind": "Status", "apiVersion": "v1", "status": "Success"})
            case _:
                raise Rejection(405, "MethodNotAllowed", f"{request.method} {request.target}")

    def _list(self, target: Target) -> Response:
        matches = _matcher(target)
        items = [obj for obj in self.objects.get(target.collection, {}).values() if matches(obj)]
        return _ok({"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items})

    def _post(self, target: Target, obj: Object) -> Response:
        if target.subresource == "token":
            seconds = obj.get("spec", {}).get("expirationSeconds", 3600)
            expires = wire_time(self._clock.true_time() + timedelta(seconds=seconds))
            return _ok({**obj, "status": {"token": f"token-{next(self._uids)}", "expirationTimestamp": expires}}, 201)
        if target.subresource or target.plural.endswith("reviews"):
            return _ok(obj, 201)
        return _ok(self.create(target.collection, obj, target.namespace), 201)

    def _put(self, target: Target, obj: Object) -> Response:
        existing = self._existing(target)
        version = obj.get("metadata", {}).get("resourceVersion")
        if version and version != existing["metadata"]["resourceVersion"]:
            raise Rejection(409, "Conflict", f"{target.name} has been modified")
        return _ok(self._store(target.collection, target.namespace, _permitted(target, existing, obj), existing))

    def _patch(self, target: Target, request: Request) -> Response:
        existing, patch = self._existing(target), msgspec.json.decode(request.body)
        meta = patch.get("metadata") or {} if isinstance(patch, dict) else {}
        if meta.get("uid") and meta["uid"] != existing["metadata"]["uid"]:
            raise Rejection(409, "Conflict", f"{target.name} has another UID")
        if meta.get("resourceVersion") and meta["resourceVersion"] != existing["metadata"]["resourceVersion"]:
            raise Rejection(409, "Conflict", f"{target.name} has been modified")
        try:
            changed = apply_patch(existing, patch, PatchType(request.headers["Content-Type"]))
        except ApiError as error:
            raise Rejection(422, "Invalid", str(error)) from error
        return _ok(self._store(target.collection, target.namespace, _permitted(target, existing, changed), existing))

    # --- the store --------------------------------------------------------------------------------------------

    def _existing(self, target: Target) -> Object:
        found = self.find(target.collection, target.namespace, target.name)
        if found is None:
            raise Rejection(404, "NotFound", f'{target.plural} "{target.name}" not found')
        return found

    def _store(self, collection: str, namespace: str, obj: Object, before: Object | None) -> Object:
        meta = obj.setdefault("metadata", {})
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = before["metadata"]["uid"] if before else meta.get("uid") or f"uid-{next(self._uids)}"
        meta.setdefault("creationTimestamp", wire_time(self._clock.true_time()))
        if before is not None:
            meta["resourceVersion"] = before["metadata"]["resourceVersion"]
            if obj == before:
                return before
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        self.objects.setdefault(collection, {})[namespace, meta["name"]] = obj
        if collection.endswith("/events") and len(self.objects[collection]) > _MAX_EVENTS:
            self._drop(collection, *next(iter(self.objects[collection])))  # The oldest event expires.
        self._record(Change(self._version, "MODIFIED" if before else "ADDED", collection, obj, before))
        return obj

    def _drop(self, collection: str, namespace: str, name: str) -> None:
        deleted = copy.deepcopy(self.objects[collection].pop((namespace, name)))
        self._version += 1
        deleted["metadata"]["resourceVersion"] = str(self._version)
        self._record(Change(self._version, "DELETED", collection, deleted, deleted))

    def _record(self, change: Change) -> None:
        if len(self._history) == HISTORY:
            self._oldest = self._history[0].version
        self._history.append(change)
        meta = change.object["metadata"]
        if change.collection == PODS:
            phase = (change.object.get("status") or {}).get("phase", "")
            self._trace.add("api", f"{change.type} pod {meta['name']} {meta['uid']} {phase}")
        self.changed(change)
        for watch in self.watches:
            _deliver(watch, change)


def parse_target(text: str) -> Target:
    """Return the parts of a request target."""
    parts = urlsplit(text)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    words = [unquote(word) for word in parts.path.strip("/").split("/")]
    size = 2 if words[0] == "api" else 3
    prefix, rest = words[:size], words[size:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    rest += [""] * (3 - len(rest))
    return Target("/" + "/".join([*prefix, rest[0]]), namespace, rest[1], rest[2], query)


def _matcher(target: Target) -> Callable[[Object], bool]:
    fields = parse_field_selector(target.query.get("fieldSelector", ""))
    labels = parse_label_selector(target.query.get("labelSelector", ""))

    def matches(obj: Object) -> bool:
        meta = obj["metadata"]
        return (
            target.namespace in ("", meta.get("namespace", ""))
            and labels.matches(meta.get("labels"))
            and all((_at(obj, term.field) == term.value) is term.equal for term in fields.terms)
        )

    return matches


def _deliver(watch: Watch, change: Change) -> None:
    if change.collection != watch.target.collection:
        return
    matches, matched = watch.matches(change.object), change.before is not None and watch.matches(change.before)
    if change.type == "DELETED":
        kind = "DELETED" if matches else ""
    elif matches:
        kind = "MODIFIED" if matched else "ADDED"
    else:
        kind = "DELETED" if matched else ""
    if kind:
        line = msgspec.json.encode({"type": kind, "object": change.object}) + b"\n"
        watch.queue.put_nowait((kind, change.object, line))


def _at(obj: Any, path: str) -> str:
    for part in path.split("."):
        obj = obj.get(part, "") if isinstance(obj, Mapping) else ""
    return str(obj)


def _permitted(target: Target, existing: Object, new: Object) -> Object:
    """Return *new* without changes that are not permitted: the status changes only through its subresource."""
    if target.plural not in _WITH_STATUS:
        return new
    if target.subresource == "status":
        meta = new.get("metadata", {})
        changed = {key: meta[key] for key in ("annotations", "labels") if key in meta}
        result = {**existing, "metadata": {**existing["metadata"], **changed}}
        result["status"] = new.get("status", {})
        return result
    return {**new, "metadata": dict(new["metadata"]), "status": existing.get("status", {})}


def _ok(obj: Any, status: int = 200) -> Response:
    return Response(status, JSON, msgspec.json.encode(obj))
