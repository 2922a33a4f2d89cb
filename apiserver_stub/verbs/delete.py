"""DELETE of one object or a collection, immediately or after a grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, conflict, details_of, not_found, success
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import SchemaMismatch, check
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.verbs import lists, unreadable, versions
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.allocation import release
from apiserver_stub.verbs.deferred_write import current_record
from apiserver_stub.verbs.preparation import DryRun
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.write_options import invalid_options
from nodeagent.base import tracing

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource, Strategy
    from apiserver_stub.verbs.context import VerbContext

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers that keep an object until the garbage collector has processed its dependents."""
_POLICIES = ("Foreground", "Background", "Orphan")


class _Changed(Exception):
    """The object has changed since its deletion was admitted."""


async def delete(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Delete the object; the reply is the object if it still exists or its kind returns it, otherwise a Status.

    The code is 202 if ``orphanDependents`` is false and the object is not deleted yet, otherwise 200.
    """
    options = read_options(request, unsafe=context.unsafe_deletions is not None)
    info = request.info
    if options.get(unreadable.OPTION):
        return await unreadable.delete_unreadable(context, request, resource)
    key = resource.key(info.namespace, info.name)
    try:
        _, removed = await remove_admitted(context, request, resource, key, info.name, options)
    except DryRun as dry_run:
        removed = dry_run.obj
    if not options["propagationPolicy"] and options["orphanDependents"] is None and resource.strategy.deletion_warning:
        request.warnings.append(resource.strategy.deletion_warning)
    pending = _is_pending(resource, removed)
    code = 202 if pending and options["orphanDependents"] is False else 200
    if resource.returns_deleted or pending:
        return Reply(code, obj=await versions.document(resource, removed))
    details = details_of(resource.group, resource.plural, info.name)
    details["uid"] = removed["metadata"]["uid"]
    return Reply(200, obj=success(details))


async def delete_collection(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Delete the selected objects and return the list of them as it was before."""
    options = read_options(request, unsafe=context.unsafe_deletions is not None)
    if options.get(unreadable.OPTION):
        problem = unreadable.option_problem("is not allowed with DELETECOLLECTION, try again after removing the option")
        raise invalid_options(request, "DeleteOptions", [problem])
    page = await lists.read(context, request, resource)
    seconds = request.query.integer("timeoutSeconds")
    async with asyncio.timeout(seconds or None):
        await _remove_all(context, request, resource, page.records, options)
    return Reply(200, page=page)


async def _remove_all(
    context: VerbContext, request: Request, resource: Resource, records: list[Record], options: Object
) -> None:
    remaining = iter(records)

    async def work() -> None:
        for record in remaining:
            name = record.key.rpartition("/")[2]
            try:
                with suppress(DryRun):
                    await remove_admitted(context, request, resource, record.key, name, options)
            except ApiError as error:
                if error.code != 404:
                    raise

    workers = max(1, min(context.settings.delete_collection_workers, len(records)))
    results = await asyncio.gather(*(work() for _ in range(workers)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def remove_admitted(
    context: VerbContext, request: Request, resource: Resource, key: str, name: str, options: Object
) -> tuple[Record | None, Object]:
    """Delete the object at *key* like :func:`remove`, if the admission plugins allow the deletion of its last state.

    :raises ApiError: 404, there is no such object; 409, a precondition is not met; 500, the object cannot be read; or
        a plugin rejects the request.
    :raises DryRun: the options request a dry run.
    """
    unreadable.check_readable(context, resource, key)
    record = context.store.collection(resource.storage).get(key)
    while True:
        admitted = await _admit(context, request, resource, record, key, name, options)
        try:
            return await remove(context, resource, key, name, options, admitted=admitted)
        except _Changed:
            record = await current_record(context.store, resource.storage, key)


async def _admit(
    context: VerbContext,
    request: Request,
    resource: Resource,
    record: Record | None,
    key: str,
    name: str,
    options: Object,
) -> int:
    """Run the admission plugins for the deletion of *record*, unless the deletion is already pending.

    :returns: the revision of the admitted object.
    """
    try:
        record = _deletable(resource, record, name, options)
    except ApiError:  # Another server of the same store may have created or changed the object.
        current = await current_record(context.store, resource.storage, key)
        record = _deletable(resource, current, name, options)
    seconds = options["gracePeriodSeconds"]
    if seconds is not None:
        seconds = _not_negative(seconds)
    if resource.strategy.graceful:
        stored = resource.read_stored(record)
        starts = "deletionTimestamp" not in stored["metadata"]
        grace = _start_grace_period(resource.strategy, stored, seconds)
        if grace is None:
            return record.revision
        if starts:
            seconds = grace
    # The option that the client set: the other one may be derived from it.
    policy = "propagationPolicy" if options.get("orphanDependents") is None else "orphanDependents"
    passed = {name: options[name] for name in ("preconditions", policy) if options.get(name) not in (None, "", {})}
    if seconds is not None:
        passed["gracePeriodSeconds"] = seconds
    if options["dryRun"]:
        passed["dryRun"] = ["All"]
    old = resource.read(await versions.record(resource, record))
    call = AdmissionRequest("DELETE", request, resource, None, old, name, passed, dry_run=options["dryRun"])
    await context.admission.check(call)
    return record.revision


def _deletable(resource: Resource, record: Record | None, name: str, options: Object) -> Record:
    """Return *record* if it exists and meets the preconditions.

    :raises ApiError: 404 or 409, it does not.
    """
    if record is None:
        raise not_found(resource.group, resource.plural, name)
    if options["preconditions"]:
        check_preconditions(resource, options, resource.read_stored(record)["metadata"])
    return record


async def remove(
    context: VerbContext, resource: Resource, key: str, name: str, options: Object, *, admitted: int | None = None
) -> tuple[Record | None, Object]:
    """Delete the object at *key* as its kind requires; return its record and its last or pending state.

    :param admitted: revision of the object to delete; any by default.
    :raises ApiError: 404, there is no such object; 409, a precondition is not met.
    :raises DryRun: the options request a dry run.
    """
    strategy = resource.strategy
    outcome_object: Object = {}
    deletes = False

    def decide(current: Record | None) -> Outcome:
        nonlocal outcome_object, deletes
        deletes = False
        if current is None:
            raise not_found(resource.group, resource.plural, name)
        if admitted not in (None, current.revision):
            raise _Changed
        obj = outcome_object = resource.read_stored(current)
        metadata = obj["metadata"]
        check_preconditions(resource, options, metadata)
        before = objects.encode(obj)
        grace = _start_grace_period(strategy, obj, options["gracePeriodSeconds"])
        if grace is None:
            return Keep()
        _set_finalizers(context, resource, metadata, options)
        pending = bool(metadata.get("finalizers")) or strategy.lingers(obj)
        if pending and not grace and not strategy.graceful:
            _set_deletion_time(metadata)
        deletes = not pending and not grace
        if not deletes:
            strategy.prepare_delete(obj)
            if objects.encode(obj) == before:
                return Keep()
        if options["dryRun"]:
            raise DryRun(obj)
        data = objects.encode_for_store(obj)
        return Remove(data) if deletes else Put(data, context.ttl_of(resource))

    tracing.event("About to delete object from database")
    record = await context.store.update(resource.storage, key, decide)
    tracing.event("Object deleted from database")
    if deletes and strategy.reserves:
        await release(context.store, resource, outcome_object)
    outcome_object["metadata"]["resourceVersion"] = str(record.revision)
    return record, outcome_object


def _start_grace_period(strategy: Strategy, obj: Object, requested: int | None) -> int | None:
    """Set the deletion timestamp of *obj* and return its grace period in seconds.

    An object that is being deleted keeps its grace period, unless a shorter one is requested. Negative periods, also
    stored ones, are one second.

    :returns: ``None`` if the deletion is pending and does not change.
    """
    metadata = obj["metadata"]
    if requested is not None:
        requested = _not_negative(requested)
    if "deletionTimestamp" in metadata:
        if not (pending := _not_negative(metadata.get("deletionGracePeriodSeconds") or 0)):
            return 0
        if requested is None or requested >= pending:
            return None
        grace, now = requested, datetime.now(UTC)
        deletion_time = _later(objects.parse_time(metadata["deletionTimestamp"]) or now, requested - pending)
        if deletion_time < now:
            deletion_time, grace = now, min(requested, 1)
    elif strategy.graceful:
        grace = strategy.grace_seconds(obj, requested)
        deletion_time = _later(datetime.now(UTC), grace)
        _increment_generation(metadata)
    else:
        return 0
    metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = objects.format_time(deletion_time), grace
    return grace


def _not_negative(seconds: int) -> int:
    return seconds if seconds >= 0 else 1


def _later(start: datetime, seconds: int) -> datetime:
    """Return a later time, at the latest the end of the year 9999."""
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _set_deletion_time(metadata: Object) -> None:
    """Set the deletion timestamp of an object without a grace period."""
    now = objects.now()
    if "deletionTimestamp" not in metadata:
        _increment_generation(metadata)
    if metadata.get("deletionTimestamp", now) >= now:
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def _increment_generation(metadata: Object) -> None:
    """Increment the generation, as deletion changes the desired state."""
    if (metadata.get("generation") or 0) > 0:
        metadata["generation"] = objects.next_generation(metadata)


def _set_finalizers(context: VerbContext, resource: Resource, metadata: Object, options: Object) -> None:
    """Set the garbage collector's finalizers by the propagation policy, by default that of the present finalizers.

    Without either, the policy of the kind applies.
    """
    if resource.ttl or not context.settings.collects_garbage:
        return
    before: list[str] = metadata.get("finalizers") or []
    finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}.get(options["propagationPolicy"] or "")
    if finalizer is None:
        default = ORPHAN if resource.strategy.orphans_dependents else ""
        finalizer = next((name for name in before if name in (FOREGROUND, ORPHAN)), default)
    kept = [name for name in before if name not in (FOREGROUND, ORPHAN)]
    after = [*kept, finalizer] if finalizer else kept
    if set(after) == set(before):
        return
    if after:
        metadata["finalizers"] = after
    else:
        del metadata["finalizers"]


def read_options(request: Request, *, unsafe: bool = False) -> Object:
    """Return the options of a deletion from the body or, if that is empty, from the query.

    :param unsafe: include the option to delete an object that cannot be read, if it is set.
    :raises ApiError: 400, 422 or 500, the options are invalid.
    """
    options: Object = {}
    if request.body:
        options = media.read_body(
            request.headers.get("Content-Type", ""), request.body, "DeleteOptions", request.identity, []
        )
        if not unsafe:
            options.pop(unreadable.OPTION, None)
        if (shape := shapes.of("v1", "DeleteOptions", request.identity.api_domain)) is not None:
            try:
                check(options, shape)
            except SchemaMismatch as error:
                raise bad_request(str(error)) from error
        kind = options.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            version = options.get("apiVersion") or "v1"
            raise ApiError(
                500, "", f'no kind "{kind}" is registered for version "{version}" in scheme "apiserver_stub"'
            )
        dry_run = options.get("dryRun") or []
    else:
        dry_run = request.query.all("dryRun")
        options["gracePeriodSeconds"] = request.query.integer("gracePeriodSeconds")
        options["propagationPolicy"] = request.query.get("propagationPolicy")
        names = ("uid", "resourceVersion")
        options["preconditions"] = {name: value for name in names if (value := request.query.get(name))} or None
        if "orphanDependents" in request.query:
            options["orphanDependents"] = request.query.flag("orphanDependents")
        if unsafe and request.query.flag(unreadable.OPTION):
            options[unreadable.OPTION] = True
    validate_options(request, options, dry_run)
    preconditions = options.get("preconditions") or {}
    policy, orphan = options.get("propagationPolicy"), options.get("orphanDependents")
    if not policy and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    found = {
        "gracePeriodSeconds": options.get("gracePeriodSeconds"),
        "preconditions": preconditions,
        "dryRun": bool(dry_run),
        "propagationPolicy": policy,
        "orphanDependents": orphan,
    }
    return {**found, unreadable.OPTION: True} if options.get(unreadable.OPTION) else found


def validate_options(request: Request, options: Object, dry_run: Sequence[str]) -> None:
    """Validate the *options* of a deletion.

    :raises ApiError: 422, an option is invalid.
    """
    wrong = []
    if dry_run and any(value != "All" for value in dry_run):
        shown = ", ".join(f'"{value}"' for value in dry_run)
        text = f'Unsupported value: []string{{{shown}}}: supported values: "All"'
        wrong.append(("FieldValueNotSupported", text, "dryRun"))
    policy = options.get("propagationPolicy")
    if policy and policy not in _POLICIES:
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        wrong.append(("FieldValueNotSupported", text, "propagationPolicy"))
    if policy and options.get("orphanDependents") is not None:
        text = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        wrong.append(("FieldValueInvalid", text, "propagationPolicy"))
    if options.get(unreadable.OPTION):
        wrong += unreadable.option_problems({**options, "dryRun": dry_run})
    if wrong:
        raise invalid_options(request, "DeleteOptions", wrong)


def check_preconditions(resource: Resource, options: Object, metadata: Object) -> None:
    """Check the preconditions in *options* against the *metadata* of an object.

    :raises ApiError: 409, a precondition is not met.
    """
    for name, text, ending in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        expected = options["preconditions"].get(name)
        if expected is not None and expected != metadata[name]:
            message = (
                f"the {text} in the precondition ({expected}) does not match the {text} in record "
                f"({metadata[name]}). {ending}"
            )
            raise conflict(resource.group if resource.group_in_errors else "", resource.kind, metadata["name"], message)


def _is_pending(resource: Resource, obj: Object) -> bool:
    metadata = obj["metadata"]
    is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(is_held) or resource.strategy.lingers(obj)
