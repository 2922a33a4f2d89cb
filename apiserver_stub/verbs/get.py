"""GET of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.reply import Reply
from apiserver_stub.status import ApiError, bad_request, internal, not_found

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Resource


async def get(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Answer with the object; it is never older than the revision asked for, nor than the newest if none is."""
    info, store = request.info, server.store
    wanted = parse_revision(asked := request.query.get("resourceVersion"))
    if wanted > store.revision_of(resource.storage) or not asked:
        await store.catch_up(resource.storage, wanted)
        if wanted > (newest := store.revision_of(resource.storage)):
            raise too_large_version(wanted, newest)
    collection, key = store.collection(resource.storage), resource.key(info.namespace, info.name)
    record = collection.get(key)
    if record is None:
        if (unread := collection.unreadable.get(key)) is not None:
            raise internal(unread.problem)
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
    return ApiError(504, "Timeout", f"Timeout: {message}", details)
