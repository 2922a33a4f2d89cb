"""Stored values that cannot be decrypted or decoded: errors of reads, and the deletion without reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    ApiError,
    details_of,
    done,
    forbidden,
    internal,
    invalid,
    invalid_value,
    qualified,
)
from apiserver_stub.verbs.responses import Reply

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.storage.collection import UnreadableValue
    from apiserver_stub.verbs.context import UnsafeDeletions, VerbContext

OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
"""Option of deletions that requests this deletion."""
VERB = "unsafe-delete-ignore-read-errors"
"""Verb on the object that is required in addition to ``delete``."""
_OTHER_OPTIONS = ("dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
_LISTED = 100
"""Maximum number of values that the error of a list names."""


def check_readable(context: VerbContext, resource: Resource, key: str) -> None:
    """Check that the value at *key*, if there is one, can be read.

    :raises ApiError: 500, it cannot.
    """
    unread = context.store.collection(resource.storage).unreadable.get(key)
    if unread is None:
        return
    if (unsafe := context.unsafe_deletions) is None:
        raise internal(unread.problem)
    full_key = unsafe.layout.full_key(resource.storage, key)
    raise internal(_problem(full_key.removeprefix(unsafe.layout.prefix), unread))


def check_all_readable(context: VerbContext, resource: Resource, prefix: str) -> None:
    """Check that all values whose key starts with *prefix* can be read.

    :raises ApiError: 500, some cannot.
    """
    collection = context.store.collection(resource.storage)
    if (unread := collection.first_unreadable(prefix)) is None:
        return
    if (unsafe := context.unsafe_deletions) is None:
        raise internal(unread.problem)
    found = {key: unread for key, unread in sorted(collection.unreadable.items()) if key.startswith(prefix)}
    raise _list_error(resource, unsafe, found)


def _list_error(resource: Resource, unsafe: UnsafeDeletions, found: Mapping[str, UnreadableValue]) -> ApiError:
    causes = []
    for key, unread in islice(found.items(), _LISTED):
        full_key = unsafe.layout.full_key(resource.storage, key)
        cause = {"reason": "UnexpectedServerResponse", "message": _problem(full_key, unread), "field": full_key}
        causes.append(cause)
    if len(found) > _LISTED:
        causes.append({"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"})
    details: dict[str, Any] = {**details_of(resource.group, resource.plural, "list"), "causes": causes}
    label = qualified(resource.plural, resource.group)
    return ApiError(500, "StorageReadError", f"failed to read one or more {label} from the storage", details)


def _problem(full_key: str, unread: UnreadableValue) -> str:
    state = (
        f"object not decodable revision={unread.revision}"
        if unread.is_decrypted
        else "data from the storage is not transformable revision=0"
    )
    return (
        f"StorageError: corrupt object, Code: 7, Key: {full_key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {state}: {unread.problem}"
    )


def option_problems(options: Object) -> list[tuple[str, str, str]]:
    """Return reason, message and field of each problem of a deletion that requests to ignore read errors."""
    conflicts = [name for name in _OTHER_OPTIONS if options.get(name) not in (None, "", [])]
    return [option_problem(f"cannot be set together with .{name}") for name in conflicts]


def option_problem(text: str) -> tuple[str, str, str]:
    """Return reason, message and field of a problem of the option."""
    return "FieldValueInvalid", f"Invalid value: true: {text}", OPTION


async def delete_unreadable(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Delete the value of an object that cannot be read, without admission, finalizers and preconditions.

    :raises ApiError: 403, the user lacks the permission; 422, the object is missing or can be read.
    """
    info, unsafe = request.info, context.unsafe_deletions
    assert unsafe is not None
    request.annotations[f"{request.identity.group('apiserver')}/unsafe-delete-ignore-read-error"] = ""
    allowed, reason = await unsafe.authorize(request.user, replace(info, verb=VERB))
    if not allowed:
        raise forbidden(resource.group, resource.plural, info.name, f'not permitted to do "{VERB}", reason: {reason}')
    await context.store.catch_up(resource.storage)
    try:
        await context.store.remove_unreadable(resource.storage, resource.key(info.namespace, info.name))
    except LookupError:
        text = "is exclusively used to delete corrupt object(s), try again by removing this option"
        raise invalid(resource.group, resource.plural, info.name, [invalid_value(OPTION, True, text)]) from None
    return Reply(200, obj={**done(200), "details": {"name": info.name, "kind": resource.kind}})
