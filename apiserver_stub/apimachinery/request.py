"""Requests: parsed path, query parameters and user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, unquote

from msgspec import field

from apiserver_stub.apimachinery.selected_objects import ALL, SelectedObjects
from apiserver_stub.apimachinery.status import ApiError, bad_request
from nodeagent.base.aging_cache import cleared_cache
from nodeagent.base.gointeger import IntegerError, parse_int64
from nodeagent.base.identity import Identity
from nodeagent.base.structs import MutableStruct, Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.media import Format

_FALSE = frozenset(["", "0", "false"])
_CACHED_LENGTH = 200


class User(Struct, frozen=True):
    """The user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class RequestInfo(Struct, frozen=True):
    """Attributes of a request for authorization and the verbs; a non-resource request has no *version*.

    The path of a non-resource request keeps a trailing slash, as permissions for ``/debug/pprof/*`` cover only paths
    below it.
    """

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    rest: str = ""
    """Path behind the subresource, for proxies."""
    selected_node: str = ""
    """Node that the field selector of a request for several objects requires as ``spec.nodeName``."""
    selected: SelectedObjects = ALL
    """Objects of a request for several objects, for authorizers."""

    @property
    def is_resource(self) -> bool:
        return bool(self.version or self.resource)


class Query:
    """Query parameters, with all values of repeated ones."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, list[str]] = {}
        if text:
            for name, value in parse_qsl(text, keep_blank_values=True):
                self._values.setdefault(name, []).append(value)

    def get(self, name: str) -> str:
        return self._values[name][0] if name in self._values else ""

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def __bool__(self) -> bool:
        """Return whether there are parameters."""
        return bool(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def flag(self, name: str) -> bool:
        """Return a boolean parameter; every text except an empty one, 0 and false is true."""
        return name in self._values and self._values[name][0].lower() not in _FALSE

    def integer(self, name: str) -> int | None:
        """Return an integer parameter, ``None`` without a value.

        :raises ApiError: 400, the text is not an integer of 64 bits.
        """
        text = self.get(name)
        if not text:
            return None
        try:
            return parse_int64(text)
        except IntegerError as error:
            raise bad_request(str(error)) from None


class Reservation(Protocol):
    """Unique values that are allocated for a write.

    A failure to release them is logged; a repair loop detects leaked values.
    """

    async def keep(self) -> None:
        """Release the values that the written object no longer has."""

    async def release(self) -> None:
        """Release the allocated values after a write that was not made."""


class Request(MutableStruct):
    """A request in the pipeline."""

    method: str
    info: RequestInfo
    query: Query
    headers: Mapping[str, str]
    body: bytes
    user: User
    format: Format
    identity: Identity
    """Names of the server, such as the domain of its API groups."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the client; each becomes a ``Warning`` header."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations of the request's audit events."""
    content_annotations: dict[str, str] = field(default_factory=dict)
    """Annotations of audit events that contain the content of the request (level ``Request``)."""
    durations: dict[str, float] = field(default_factory=dict)
    """Seconds of the parts of the request that audit events of slow requests report, by name."""
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """Functions that are called when the request has completed or failed."""
    reservation: Reservation | None = None
    """Allocations of the write in progress; see :mod:`apiserver_stub.verbs.allocation`."""

    def add_duration(self, part: str, seconds: float) -> None:
        """Add the duration of a part of the request."""
        self.durations[part] = self.durations.get(part, 0.0) + seconds

    @property
    def dry_run(self) -> bool:
        return "All" in self.query.all("dryRun")


def parse_path(method: str, raw_path: str, query: Query) -> RequestInfo:
    """Parse *raw_path*, which is percent-encoded.

    :raises ApiError: 400, the name is ``.`` or ``..``.
    """
    watches = query.flag("watch")
    if len(raw_path) > _CACHED_LENGTH:
        return _parse_path(method, raw_path, watches)
    return _cached(method, raw_path, watches)


def _parse_path(method: str, raw_path: str, watches: bool) -> RequestInfo:
    parts = [unquote(part) for part in raw_path.strip("/").split("/")]
    path = "/" + "/".join(parts)
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        slash = "/" if raw_path.endswith("/") and path != "/" else ""
        return RequestInfo(method.lower(), path + slash)
    deprecated_watch = rest[0] == "watch" and len(rest) > 1
    if deprecated_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    if name in (".", ".."):
        raise bad_request(f"Name parameter invalid: \"{name}\": may not be '{name}'")
    verb = "watch" if deprecated_watch else _verb(method, name, watches=watches)
    subresource = rest[2] if len(rest) > 2 else ""
    return RequestInfo(
        verb, path, group, version, resource, subresource, namespace, name, "/".join(rest[3:]) if len(rest) > 3 else ""
    )


_cached = cleared_cache(1024)(_parse_path)
"""Cached, as clients use few different paths."""


def _verb(method: str, name: str, *, watches: bool) -> str:
    match method:
        case "GET" | "HEAD":
            if name:
                return "get"
            return "watch" if watches else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if name else "deletecollection"
        case _:
            return method.lower()


def check_method(info: RequestInfo, method: str) -> None:
    """Reject methods that resources do not support.

    :raises ApiError: 405, the method is not supported.
    """
    if method == "HEAD" and info.subresource == "proxy":
        return
    if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
