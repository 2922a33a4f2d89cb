"""What a request asks for: its path taken apart, its query, its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, unquote

from apiserver_stub.apimachinery.status import ApiError, bad_request
from nodeagent.base.gointeger import IntegerError, parse_int64

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.media import Format

_FALSE = frozenset(["", "0", "false"])
_REMEMBERED_LENGTH = 200


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A path and method as authorization and the verbs see them; a non-resource request has no *version*.

    The path of such a request ends with a slash when the caller wrote one: rights of ``/debug/pprof/*`` are for what is
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
    """What follows the subresource, for proxies."""

    @property
    def is_resource(self) -> bool:
        return bool(self.version or self.resource)


class Query:
    """Query parameters; a repeated one keeps all of its values."""

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
        """Whether anything was given."""
        return bool(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def flag(self, name: str) -> bool:
        """Return a boolean; any text but empty, 0 and false is true."""
        return name in self._values and self._values[name][0].lower() not in _FALSE

    def integer(self, name: str) -> int | None:
        """Return a number, or ``None`` when it is not given.

        :raises ApiError: 400, the text is no number, or it does not fit into 64 bits.
        """
        text = self.get(name)
        if not text:
            return None
        try:
            return parse_int64(text)
        except IntegerError as error:
            raise bad_request(str(error)) from None


class Reservation(Protocol):
    """Values allocated for a write that only one object may have.

    A failure to release them is logged; a repair loop finds the leaked ones.
    """

    async def keep(self) -> None:
        """Release the values that the written object no longer has."""

    async def release(self) -> None:
        """Release the allocated values after a write that was not made."""


@dataclass(slots=True)
class Request:
    """One request on its way through the pipeline."""

    method: str
    info: RequestInfo
    query: Query
    headers: Mapping[str, str]
    body: bytes
    user: User
    format: Format
    warnings: list[str] = field(default_factory=list)
    """What the caller should know; each becomes a ``Warning`` header."""
    annotations: dict[str, str] = field(default_factory=dict)
    """What the audit trail should tell besides, where there is one."""
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """Called when the request is done, however it ended."""
    reservation: Reservation | None = None
    """What the write under way has taken; see :mod:`apiserver_stub.verbs.reserving`."""

    @property
    def dry_run(self) -> bool:
        return "All" in self.query.all("dryRun")


def parse_path(method: str, raw_path: str, query: Query) -> RequestInfo:
    """Take *raw_path* (still percent-encoded) apart.

    :raises ApiError: 400, a name that cannot be one.
    """
    watches = query.flag("watch")
    if len(raw_path) > _REMEMBERED_LENGTH:
        return _parse_path(method, raw_path, watches)
    return _remembered(method, raw_path, watches)


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
    verb = _verb(method, name, watches=watches)
    if deprecated_watch and verb in ("get", "list"):
        verb = "watch"
    subresource = rest[2] if len(rest) > 2 else ""
    return RequestInfo(
        verb, path, group, version, resource, subresource, namespace, name, "/".join(rest[3:]) if len(rest) > 3 else ""
    )


_remembered = lru_cache(maxsize=1024)(_parse_path)
"""Clients ask for few paths again and again."""


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
    """Refuse methods that no resource has.

    :raises ApiError: 405.
    """
    if method == "HEAD" and info.subresource == "proxy":
        return
    if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
