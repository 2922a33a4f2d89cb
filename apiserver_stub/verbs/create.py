"""POST: create an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import ApiError, already_exists
from apiserver_stub.storage import Outcome, Record
from apiserver_stub.verbs import versions
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.preparation import DryRun, decide_create, generate_name, prepare_new, settle_namespace
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.revisions import sets_version
from apiserver_stub.verbs.write_options import check_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext

_NAME_ATTEMPTS = 8


async def create(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Store the object in the body; the reply is 201 with the stored object."""
    resource.strategy.check_create()
    check_options(request, "CreateOptions")
    obj = read_object(request, resource.kind, resource.api_version, resource.schema)
    metadata = obj["metadata"]
    settle_namespace(request, resource, metadata)
    generated = not metadata.get("name")
    obj = await prepare_new(context, request, resource, obj)
    metadata = obj["metadata"]

    versioned = sets_version(metadata) and not request.dry_run

    def decide(current: Record | None) -> Outcome:
        if versioned:
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if current is not None:
            raise already_exists(resource.group, resource.plural, metadata["name"])
        return decide_create(context, request, resource, obj)

    attempts_left = _NAME_ATTEMPTS if generated else 1
    while True:
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        try:
            return Reply(201, record=await versions.create(context.store, resource, key, decide))
        except DryRun as dry_run:
            return Reply(201, obj=dry_run.obj)
        except ApiError as error:
            attempts_left -= 1
            if error.reason != "AlreadyExists" or not generated:
                raise
            if not attempts_left:
                error.message += ", the server was not able to generate a unique name for the object"
                error.details = {**(error.details or {}), "retryAfterSeconds": 1}
                raise
        metadata["name"] = generate_name(metadata)
        resource.strategy.prepare_create(obj)  # Fields that are derived from the name.
