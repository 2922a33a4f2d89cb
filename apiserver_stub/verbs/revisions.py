"""Resource versions in requests, and kube-apiserver's errors for each of their uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, quote
from apiserver_stub.storage import StoreUnavailable

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext

_LIMIT = 1 << 64


class InvalidVersion(ValueError):
    """A text is not a resource version; the message is that of Go's number parser."""


def parse_version(text: str) -> int:
    """Return *text* as a revision, 0 for an empty text.

    :raises InvalidVersion: *text* is not an unsigned 64-bit number.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise InvalidVersion(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    number = int(text) if len(text) < 40 else _LIMIT  # int() rejects very long texts.
    if number >= _LIMIT:
        raise InvalidVersion(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number


def version_of(metadata: Object) -> int:
    """Return the resource version in the *metadata* of an object in a write request.

    :raises ApiError: 500, the resource version is invalid.
    """
    try:
        return parse_version(metadata.get("resourceVersion") or "")
    except InvalidVersion as error:
        raise ApiError(500, "", str(error)) from None


def sets_version(metadata: Object) -> bool:
    """Return whether the *metadata* of a new object contains a valid resource version other than 0."""
    try:
        return parse_version(metadata.get("resourceVersion") or "") != 0
    except InvalidVersion:
        return False


def requested_version(text: str, *, cached: bool) -> int:
    """Return the revision that a read requests.

    :param cached: upstream serves the read from its watch cache, whose errors differ from those of the store.
    :raises ApiError: 500 from the cache or 400 from the store, *text* is invalid.
    """
    try:
        return parse_version(text)
    except InvalidVersion as error:
        problem = f"resourceVersion: Invalid value: {quote(text)}: {error}"
        if cached:
            raise ApiError(500, "", problem) from None
        raise bad_request(f"invalid resource version: {problem}") from None


def awaited_version(text: str) -> int:
    """Return the revision that a store must have reached before a read of *text*, 0 for none and for an invalid one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


async def catch_up(context: VerbContext, resource: Resource) -> None:
    """Wait until all writes that were acknowledged before the call are visible.

    :raises StoreUnavailable: the backend does not respond.
    """
    if not await context.store.catch_up(resource.storage):
        raise StoreUnavailable("the store does not respond, so that its latest revision is unknown")


def too_large_version(requested: int, current: int, *, cached: bool) -> ApiError:
    """Return the 504 error for a revision that does not exist yet; only that of the watch cache has a retry delay."""
    message = f"Too large resource version: {requested}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause]} | ({"retryAfterSeconds": 1} if cached else {})
    return ApiError(504, "Timeout", f"Timeout: {message}", details)
