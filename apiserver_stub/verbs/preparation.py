"""Preparation of writes: complete, validate and admit a new or changed object before it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, Cause, bad_request, conflict, invalid, modified
from apiserver_stub.kinds.registry import any_name_problems
from apiserver_stub.schema.managed_fields import same_but_times
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.validation.metadata import validate_metadata, validate_metadata_update
from apiserver_stub.validation.names import path_problems
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.allocation import reserve
from apiserver_stub.verbs.field_manager import put, track_create, track_update
from apiserver_stub.verbs.revisions import version_of

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource, Strategy
    from apiserver_stub.schema.kind_schema import KindSchema
    from apiserver_stub.schema.managed_fields import ManagedFieldsEntry
    from apiserver_stub.verbs.context import VerbContext

_OMITTED_IF_EMPTY = ("annotations", "finalizers", "labels", "ownerReferences")
_DUPLICATES = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your "
    "requests; duplicate UID(s) observed: "
)
_SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


class DryRun(Exception):
    """A dry run, with the object that the write would have stored."""

    def __init__(self, obj: Object) -> None:
        super().__init__()
        self.obj = obj


def undetermined_name(name: str) -> ApiError:
    """Return the 400 error for an object without a name in a request for *name*."""
    text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    return bad_request(text)


def settle_namespace(request: Request, resource: Resource, metadata: Object) -> None:
    """Set the namespace of a new object to that of the request.

    :raises ApiError: 400, *metadata* contains a different namespace.
    """
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    namespace = request.info.namespace
    if metadata.setdefault("namespace", namespace) not in ("", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


async def prepare_new(
    context: VerbContext,
    request: Request,
    resource: Resource,
    obj: Object,
    entries: list[ManagedFieldsEntry] | None = None,
) -> Object:
    """Return *obj*, as sent by the client, completed, validated and admitted for creation.

    :param entries: the managed fields of *obj* if they are already known.
    :raises ApiError: 422, *obj* is invalid; 403 or another code, an admission plugin rejects it.
    """
    metadata = obj["metadata"]
    clean_metadata(request, metadata)
    if not metadata.get("resourceVersion"):
        metadata.pop("resourceVersion", None)
    _omit_empty(metadata)
    strategy = resource.strategy
    strategy.default(obj)
    schema = resource.schema_in(request.identity.api_domain)
    if schema is not None and not context.settings.shows_null_times:
        schema.omit_null_times(obj)
    if entries is None:  # Fields that admission and the server set later have no owner.
        track_create(request, resource, obj)
    else:
        put(obj, entries)
    call = AdmissionRequest("CREATE", request, resource, obj, name=metadata.get("name") or "", dry_run=request.dry_run)
    await context.admission.admit(call)
    _settle(context, obj, schema)
    metadata = obj["metadata"]
    _check_admitted(request, resource, metadata)
    _drop_duplicate_owners(request, metadata, " after mutating admission happens")
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generate_name(metadata)
    metadata |= {"uid": objects.new_uid(), "creationTimestamp": objects.now()}
    request.warnings += strategy.warnings_as_sent(obj)
    strategy.prepare_create(obj)
    if strategy.counted:
        metadata["generation"] = 1
    if strategy.reserves:
        await reserve(context, request, resource, obj, None)
    rule = resource.name_rule(obj)
    causes = strategy.validate(obj)
    if not causes or strategy.validates_metadata:
        causes = validate_metadata(metadata, rule, resource.metadata_rules) + causes
    if rule is any_name_problems and not causes:
        causes = validate_metadata(metadata, path_problems, resource.metadata_rules)
    if causes:
        raise invalid(
            resource.group, resource.kind, metadata.get("name") or "", causes, grouped=resource.group_in_errors
        )
    request.warnings += strategy.warnings(obj, None)
    strategy.canonicalize(obj, None)
    await context.admission.validate(call)
    return obj


def _check_admitted(request: Request, resource: Resource, metadata: Object) -> None:
    """Check the identity of a new object after mutating admission, and remove fields that only the server sets.

    :raises ApiError: 400, the namespace or name is not that of the request.
    """
    settle_namespace(request, resource, metadata)
    name, requested = metadata.get("name") or "", request.info.name
    if request.info.verb != "create" and name != requested:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({requested})")
    for field in _SERVER_SET:
        metadata.pop(field, None)


def _settle(context: VerbContext, obj: Object, schema: KindSchema | None) -> None:
    """Normalize *obj* after admission, which may have replaced it, in place."""
    if schema is None:
        return
    schema.settle(obj)
    if not context.settings.shows_null_times:
        schema.omit_null_times(obj)


def clean_metadata(request: Request, metadata: Object) -> None:
    """Remove fields that only the server sets, and duplicate owner references, from the metadata of a new object."""
    for name in _SERVER_SET:
        metadata.pop(name, None)
    _drop_duplicate_owners(request, metadata)


def _omit_empty(metadata: Object) -> None:
    """Remove empty maps and lists from *metadata*, as after the last label was removed, so that they have no owner."""
    for name in _OMITTED_IF_EMPTY:
        if name in metadata and not metadata[name]:
            del metadata[name]


def _drop_duplicate_owners(request: Request, metadata: Object, occasion: str = "") -> None:
    """Remove owner references that are equal to an earlier one, and warn the client."""
    references = metadata.get("ownerReferences") or ()
    if len(references) < 2:
        return
    unique: list[Object] = []
    repeats: list[str] = []
    for reference in references:
        if reference in unique:
            repeats.append(reference.get("uid") or "")
        else:
            unique.append(reference)
    if repeats:
        text = f".metadata.ownerReferences contains duplicate entries{occasion}; {_DUPLICATES}{', '.join(repeats)}"
        if text not in request.warnings:
            request.warnings.append(text)
        metadata["ownerReferences"] = unique


def generate_name(metadata: Object) -> str:
    """Return a new name that starts with the ``generateName`` of *metadata*."""
    name: str = metadata["generateName"][:58] + objects.name_suffix()
    return name


def decide_create(context: VerbContext, request: Request, resource: Resource, obj: Object) -> Outcome:
    """Return the write that stores the new *obj*.

    :raises DryRun: the request is a dry run.
    """
    if request.dry_run:
        raise DryRun(obj)
    return Put(objects.encode_for_store(obj), context.ttl_of(resource))


async def plan_update(
    context: VerbContext,
    request: Request,
    resource: Resource,
    new: Object,
    current: Record,
    *,
    patched: bool = False,
    entries: list[ManagedFieldsEntry] | None = None,
) -> Outcome:
    """Return the write that replaces *current* by *new*, once *new* is completed, validated and admitted.

    :param patched: *new* is the result of a patch or an apply.
    :param entries: the managed fields of *new* if they are already known.
    :raises ApiError: 400, 403, 409 or 422.
    :raises DryRun: the request is a dry run.
    """
    old = resource.read(current)
    metadata, before = new["metadata"], old["metadata"]
    info = request.info
    name = before["name"]
    if not metadata.get("name", name):
        raise undetermined_name(name)
    if metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    uid = metadata.get("uid")
    if uid and uid != before["uid"] and not patched:
        raise precondition_failed(request, resource, current.key, name, "UID", uid, before["uid"])
    if version := version_of(metadata):
        if version != int(before["resourceVersion"]):
            raise modified(resource.group, resource.plural, name)
    elif not resource.unconditional_update:
        raise must_have_version(resource, name)
    metadata["name"] = name
    metadata["uid"] = uid or before["uid"]
    _omit_empty(metadata)
    _restore_system_fields(metadata, before)
    if not patched:
        _drop_duplicate_owners(request, metadata)
    strategy = resource.strategy
    if info.subresource:
        strategy.default_status(new)
    else:
        strategy.default(new)
    schema = resource.schema_in(request.identity.api_domain)
    if schema is not None and not context.settings.shows_null_times:
        schema.omit_null_times(new)
        schema.omit_null_times(old)  # An earlier release may have stored it; immutable fields have to be equal.
    if entries is None:
        track_update(request, resource, new, old)
    else:
        put(new, entries)
    call = AdmissionRequest("UPDATE", request, resource, new, old, name, dry_run=request.dry_run)
    await context.admission.admit(call)
    _settle(context, new, schema)
    _drop_duplicate_owners(request, new["metadata"], " after mutating admission happens")
    owners = new["metadata"].get("managedFields")
    strategy.prepare_update(new, old, info.subresource)
    if new["metadata"].get("managedFields") is not owners and info.subresource != "ephemeralcontainers":
        # Some strategies start from the old object. Upstream loses the owners of ephemeral containers.
        new["metadata"] = {**new["metadata"], "managedFields": owners or []}
    if strategy.is_counted(new, old):  # Includes changes by admission.
        new["metadata"] = {**new["metadata"], "generation": objects.next_generation(before)}
    if strategy.reserves:
        removes = finished(strategy, new, old)
        if removes or not info.subresource:
            await reserve(context, request, resource, None if removes else new, old)
    rules = resource.subresource_rules if info.subresource else resource.metadata_rules
    causes = validate_metadata_update(new["metadata"], before, resource.name_rule(new), rules)
    causes += strategy.validate_update(new, old, info.subresource)
    if causes:
        raise invalid(resource.group, resource.kind, name, causes, grouped=resource.group_in_errors)
    if not info.subresource:
        request.warnings += strategy.warnings(new, old)
    elif info.subresource == "status":
        request.warnings += strategy.status_warnings(new)
    strategy.canonicalize(new, old)
    await context.admission.validate(call)
    new["metadata"]["resourceVersion"] = before["resourceVersion"]
    _restore_times(new, old)
    if request.dry_run:
        raise DryRun(new)
    if new == old:
        return Keep(context.ttl_of(resource))
    data = objects.encode_for_store(new)
    if finished(strategy, new, old):
        return Remove(data)
    return Put(data, context.ttl_of(resource))


def _restore_times(new: Object, old: Object) -> None:
    """Restore the managed fields of *old* in *new* if only their times differ, so that nothing is written."""
    metadata, before = new["metadata"], old["metadata"]
    entries, entries_before = metadata.get("managedFields"), before.get("managedFields")
    if entries == entries_before or not same_but_times(entries, entries_before):
        return
    if {**new, "metadata": {**metadata, "managedFields": entries_before}} == old:
        metadata["managedFields"] = entries_before


def _restore_system_fields(metadata: Object, before: Object) -> None:
    """Restore the fields of *metadata* that clients cannot change."""
    for name in ("namespace", "creationTimestamp", "generation"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])


def finished(strategy: Strategy, new: Object, old: Object) -> bool:
    """Return whether this write removes the last finalizer, or other obstacle, of an object that is being deleted."""
    metadata = new["metadata"]
    waits = bool(metadata.get("deletionTimestamp")) and not metadata.get("deletionGracePeriodSeconds")
    return waits and _is_held(strategy, old) and not _is_held(strategy, new)


def _is_held(strategy: Strategy, obj: Object) -> bool:
    return bool(obj["metadata"].get("finalizers")) or strategy.lingers(obj)


def precondition_failed(
    request: Request, resource: Resource, key: str, name: str, member: str, expected: str, actual: str
) -> ApiError:
    """Return the 409 error for the field *member* of the metadata, which differs from the precondition of the write."""
    root = "" if request.dry_run else "/registry"
    text = (
        f"StorageError: invalid object, Code: 4, Key: {root}/{resource.storage_key or resource.plural}/{key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {member} in precondition: {expected}, "
        f"{member} in object meta: {actual}"
    )
    return conflict(resource.group, resource.plural, name, text)


def must_have_version(resource: Resource, name: str) -> ApiError:
    """Return the 422 error for an update without a resource version."""
    detail = "Invalid value: 0x0: must be specified for an update"
    cause = Cause("FieldValueInvalid", detail, "metadata.resourceVersion")
    return invalid(resource.group, resource.plural, name, [cause])
