"""Resource versions as clients send them, and the errors that kube-apiserver has for each way to use them."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, quote

_LIMIT = 1 << 64


class InvalidVersion(ValueError):
    """A text is not a resource version; the message is the one of Go's number parser."""


def parse_version(text: str) -> int:
    """Return the revision that *text* names, 0 for an empty text.

    :raises InvalidVersion: *text* is not an unsigned number of 64 bits.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise InvalidVersion(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    number = int(text) if len(text) < 40 else _LIMIT  # int() itself limits its input
    if number >= _LIMIT:
        raise InvalidVersion(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number


def version_of(metadata: Object) -> int:
    """Return the resource version in the *metadata* of an object that is to be written.

    :raises ApiError: 500, it is invalid.
    """
    try:
        return parse_version(metadata.get("resourceVersion") or "")
    except InvalidVersion as error:
        raise ApiError(500, "", str(error)) from None


def sets_version(metadata: Object) -> bool:
    """Return whether the *metadata* of a new object names a revision; 0 and invalid versions do not."""
    try:
        return parse_version(metadata.get("resourceVersion") or "") != 0
    except InvalidVersion:
        return False


def requested_version(text: str, *, cached: bool) -> int:
    """Return the revision that a read asks for.

    :param cached: the response comes from the watch cache, whose errors differ from those of the store.
    :raises ApiError: 500 from the cache or 400 from the store, *text* is invalid.
    """
    try:
        return parse_version(text)
    except InvalidVersion as error:
        problem = f"resourceVersion: Invalid value: {quote(text)}: {error}"
        if cached:
            raise ApiError(500, "", problem) from None
        raise bad_request(f"invalid resource version: {problem}") from None


def too_large_version(wanted: int, current: int, *, cached: bool) -> ApiError:
    """Return the 504 for a revision that does not exist yet; only the watch cache tells clients when to retry."""
    message = f"Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause]} | ({"retryAfterSeconds": 1} if cached else {})
    return ApiError(504, "Timeout", f"Timeout: {message}", details)
