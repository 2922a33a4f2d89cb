"""DELETE: one object or a collection, at once or after a grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, conflict, details_of, not_found, success
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import Misfit, check
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.verbs import lists
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.reserving import give_back
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.writing import DryRun, invalid_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource, Strategy
    from apiserver_stub.verbs.context import VerbContext

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers by which an object waits until the garbage collector has seen to its dependents."""
_TOLD_OTHERWISE = ("dryRun", "orphanDependents")
"""Options that admission sees as a list and as a policy."""
_POLICIES = ("Foreground", "Background", "Orphan")


async def delete(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Delete the object and answer with it or with a Status, as the kind has it.

    The code is 202 for who forbids to orphan its dependents and has to wait.
    """
    options = read_options(request)
    info = request.info
    key = resource.key(info.namespace, info.name)
    await _admit(context, request, resource, key, info.name, options)
    try:
        _, removed = await remove(context, resource, key, info.name, options)
    except DryRun as dry_run:
        removed = dry_run.obj
    stays = _stays(resource, removed)
    code = 202 if stays and options["orphanDependents"] is False else 200
    if resource.returns_deleted or stays:
        return Reply(code, obj=removed)
    details = details_of(resource.group, resource.plural, info.name)
    details["uid"] = removed["metadata"]["uid"]
    return Reply(200, obj=success(details))


async def delete_collection(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Delete what the selectors choose and answer with the list as it was before."""
    options = read_options(request)
    await lists.catch_up(context, request, resource)
    page = lists.select(context, request, resource)
    seconds = request.query.integer("timeoutSeconds")
    if not options["dryRun"]:
        async with asyncio.timeout(seconds or None):
            await _remove_all(context, request, resource, page.records, options)
    return Reply(200, page=page)


async def _remove_all(
    context: VerbContext, request: Request, resource: Resource, records: list[Record], options: Object
) -> None:
    left = iter(records)

    async def work() -> None:
        for record in left:
            name = record.key.rpartition("/")[2]
            try:
                await _admit(context, request, resource, record.key, name, options)
                await remove(context, resource, record.key, name, options)
            except ApiError as error:
                if error.code != 404:
                    raise

    workers = max(1, min(context.settings.delete_collection_workers, len(records)))
    results = await asyncio.gather(*(work() for _ in range(workers)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _admit(
    context: VerbContext, request: Request, resource: Resource, key: str, name: str, options: Object
) -> None:
    record = context.store.collection(resource.storage).get(key)
    old = resource.read(record) if record is not None else None
    given = {member: value for member, value in options.items() if value and member not in _TOLD_OTHERWISE}
    if options["dryRun"]:
        given["dryRun"] = ["All"]
    call = AdmissionRequest("DELETE", request, resource, None, old, name, given, dry_run=options["dryRun"])
    await context.admission.check(call)


async def remove(
    context: VerbContext, resource: Resource, key: str, name: str, options: Object
) -> tuple[Record | None, Object]:
    """Delete the object at *key* by the rules of its kind; returns its record and its last or lingering state.

    :raises ApiError: 404, or 409 when a precondition does not hold.
    """
    strategy = resource.strategy
    outcome_object: Object = {}
    gone = False

    def decide(current: Record | None) -> Outcome:
        nonlocal outcome_object, gone
        gone = False
        if current is None:
            raise not_found(resource.group, resource.plural, name)
        obj = outcome_object = resource.read(current)
        metadata = obj["metadata"]
        check_preconditions(resource, options, metadata)
        before = objects.encode(obj)
        grace = _begin_grace(strategy, obj, options["gracePeriodSeconds"])
        if grace is None:
            return Keep()
        _set_finalizers(context, resource, metadata, options)
        waits = bool(metadata.get("finalizers")) or strategy.lingers(obj)
        if waits and not grace and not strategy.graceful:
            _mark(metadata)
        gone = not waits and not grace
        if not gone:
            strategy.prepare_delete(obj)
            if objects.encode(obj) == before:
                return Keep()
        if options["dryRun"]:
            raise DryRun(obj)
        data = objects.encode_for_store(obj)
        return Remove(data) if gone else Put(data, context.ttl_of(resource))

    record = await context.store.update(resource.storage, key, decide)
    if gone and strategy.reserves:
        await give_back(context.store, resource, outcome_object)
    outcome_object["metadata"]["resourceVersion"] = str(record.revision)
    return record, outcome_object


def _begin_grace(strategy: Strategy, obj: Object, requested: int | None) -> int | None:
    """Set the end of the grace period in the metadata of *obj* and return its length in seconds.

    An object that is being deleted keeps its grace period, unless a shorter one is requested.

    :returns: ``None`` where the deletion is pending and stays as it is.
    """
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        if not (pending := metadata.get("deletionGracePeriodSeconds")):
            return 0
        if requested is None or requested >= pending:
            return None
        grace, change = requested, timedelta(seconds=requested - pending)
        ends = (objects.parse_time(metadata["deletionTimestamp"]) or datetime.now(UTC)) + change
    elif strategy.graceful:
        grace = strategy.grace_seconds(obj, requested)
        ends = datetime.now(UTC) + timedelta(seconds=grace)
        _count(metadata)
    else:
        return 0
    metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = objects.format_time(ends), grace
    return grace


def _mark(metadata: Object) -> None:
    """Set the time of deletion of an object without a grace period."""
    now = objects.now()
    if "deletionTimestamp" not in metadata:
        _count(metadata)
    if metadata.get("deletionTimestamp", now) >= now:
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def _count(metadata: Object) -> None:
    """Count the deletion as a change."""
    if metadata.get("generation"):
        metadata["generation"] += 1


def _set_finalizers(context: VerbContext, resource: Resource, metadata: Object, options: Object) -> None:
    """Set the finalizers of the garbage collector by the policy of a deletion, or by the finalizers themselves."""
    if resource.ttl or not context.settings.collects_garbage:
        return
    before: list[str] = metadata.get("finalizers") or []
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}.get(options["propagationPolicy"] or "")
    if wanted is None:
        wanted = next((name for name in before if name in (FOREGROUND, ORPHAN)), "")
    kept = [name for name in before if name not in (FOREGROUND, ORPHAN)]
    after = [*kept, wanted] if wanted else kept
    if set(after) == set(before):
        return
    if after:
        metadata["finalizers"] = after
    else:
        del metadata["finalizers"]


def read_options(request: Request) -> Object:
    """Return the options of a deletion: the body, or without one the query.

    :raises ApiError: 400, 422 or 500, they make no sense.
    """
    options: Object = {}
    if request.body:
        options = media.read_body(request.headers.get("Content-Type", ""), request.body, "DeleteOptions", [])
        if (shape := shapes.of("v1", "DeleteOptions")) is not None:
            try:
                check(options, shape)
            except Misfit as error:
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
        if "orphanDependents" in request.query:
            options["orphanDependents"] = request.query.flag("orphanDependents")
    validate_options(options, dry_run)
    grace = options.get("gracePeriodSeconds")
    if grace is not None and grace < 0:
        grace = 1
    preconditions = options.get("preconditions") or {}
    policy, orphan = options.get("propagationPolicy"), options.get("orphanDependents")
    if not policy and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return {
        "gracePeriodSeconds": grace,
        "preconditions": preconditions,
        "dryRun": bool(dry_run),
        "propagationPolicy": policy,
        "orphanDependents": orphan,
    }


def validate_options(options: Object, dry_run: Sequence[str]) -> None:
    """Require that *options* of a deletion are valid.

    :raises ApiError: 422.
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
    if wrong:
        raise invalid_options("DeleteOptions", wrong)


def check_preconditions(resource: Resource, options: Object, metadata: Object) -> None:
    """Raise a 409 unless the preconditions in *options* hold for an object with that *metadata*."""
    for name, text, ending in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        wanted = options["preconditions"].get(name)
        if wanted is not None and wanted != metadata[name]:
            message = (
                f"the {text} in the precondition ({wanted}) does not match the {text} in record "
                f"({metadata[name]}). {ending}"
            )
            raise conflict(resource.group if resource.group_in_errors else "", resource.kind, metadata["name"], message)


def _stays(resource: Resource, obj: Object) -> bool:
    metadata = obj["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(held) or resource.strategy.lingers(obj)
