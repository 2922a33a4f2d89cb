"""GET of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.reply import Reply
from apiserver_stub.status import ApiError, bad_request, not_found

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Resource


async def get(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Answer with the object; it is never older than the revision asked for, because there is one view of the store."""
    info = request.info
    wanted = parse_revision(request.query.get("resourceVersion"))
    if wanted > server.store.revision:
        raise too_large_version(wanted, server.store.revision)
    record = server.store.collection(resource.storage).get(resource.key(info.namespace, info.name))
    if record is None:
        raise not_found(resource.group, resource.plural, info.name)
    return Reply(200, record=record)


def parse_revision(text: str) -> int:
    """Return the revision that *text* names, 0 for an empty one.

    :raises ApiError: 400.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: '
            f'parsing "{text}": invalid syntax'
        )
    return int(text)


def too_large_version(wanted: int, current: int) -> ApiError:
    message = f"Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: {message}", details, {"Retry-After": "1"})
