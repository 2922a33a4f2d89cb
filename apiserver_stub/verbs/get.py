"""GET of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import not_found
from apiserver_stub.verbs import versions
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.revisions import catch_up, requested_version, too_large_version
from apiserver_stub.verbs.unreadable import check_readable

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext


async def get(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Return the object, not older than the requested revision, or than the request if it names no revision."""
    info, store = request.info, context.store
    if version := request.query.get("resourceVersion"):
        cached = context.settings.is_cached(resource.plural, resource.group)
        revision = requested_version(version, cached=cached)
        if revision > store.revision_of(resource.storage):
            await store.catch_up(resource.storage, revision)
            if revision > (latest := store.revision_of(resource.storage)):
                raise too_large_version(revision, latest, cached=cached)
    else:
        await catch_up(context, resource)
    collection, key = store.collection(resource.storage), resource.key(info.namespace, info.name)
    record = collection.get(key)
    if record is None:
        check_readable(context, resource, key)
        raise not_found(resource.group, resource.plural, info.name)
    return Reply(200, record=await versions.record(resource, record))
