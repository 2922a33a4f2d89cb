"""Steps that create, update, patch and apply share: decoding, metadata, validation and admission before a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, Cause, bad_request, conflict, invalid, invalid_value, modified
from apiserver_stub.kinds.registry import any_name_problems
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import Findings, SchemaMismatch, merge_repeated, repeated
from apiserver_stub.schema.kind_schema import defined
from apiserver_stub.schema.managed_fields import same_but_times
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.validation.metadata import validate_field_manager, validate_metadata, validate_metadata_update
from apiserver_stub.validation.names import path_problems
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.allocation import reserve
from apiserver_stub.verbs.field_manager import put, track_create, track_update
from apiserver_stub.verbs.revisions import version_of
from nodeagent.base import yamlsafe

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource, Strategy
    from apiserver_stub.schema.kind_schema import KindSchema
    from apiserver_stub.schema.managed_fields import ManagedFieldsEntry
    from apiserver_stub.verbs.context import VerbContext

_OMITTED_IF_EMPTY = ("annotations", "finalizers", "labels", "ownerReferences")
_SHOWN_BODY = 30
"""Number of characters of a body that an error repeats."""
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


def read_object(request: Request, kind: str, api_version: str, schema: KindSchema | None = None) -> Object:
    """Return the body as an object of the expected kind.

    :param schema: schema of the kind; by default that of its definition.
    :raises ApiError: 400 or 415, the body is not such an object.
    """
    media_type, api_domain = request.headers.get("Content-Type", ""), request.identity.api_domain
    repeats: list[yamlsafe.Repeat] = []
    obj = media.read_body(media_type, request.body, kind, request.identity, repeats)
    if schema is not None and schema.is_open:
        _require_type(request, obj, kind, api_version)
    sent_version, sent_kind = obj.get("apiVersion") or api_version, obj.get("kind") or kind
    if (sent_version, sent_kind) != (api_version, kind):
        raise _other_type(sent_version, sent_kind, api_version, kind, api_domain)
    obj["kind"], obj["apiVersion"] = kind, api_version
    schema = schema or defined(api_version, kind, api_domain)
    findings = _check_body(obj, schema)
    if media_type.startswith(request.identity.protobuf_media_type):  # The decoder has dropped unknown fields.
        return obj
    is_yaml = media_type.startswith(media.YAML)
    duplicates = [] if is_yaml else repeated(request.body, findings.members, findings.unknown)
    if duplicates:
        merged = merge_repeated(request.body)
        obj = merged | {"kind": kind, "apiVersion": api_version}
        findings = _check_body(obj, schema)
    is_open = schema is not None and schema.is_open
    if problem := report(request, findings.unknown, duplicates, repeats, duplicates_first=is_open):
        raise _cannot_be_handled(obj, problem)
    return obj


def _require_type(request: Request, obj: Object, kind: str, api_version: str) -> None:
    """Check that an object of a custom kind states its kind and API version.

    :raises ApiError: 400 or 422, one of them is missing or another one.
    """
    sent_version, sent_kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if not sent_kind:
        text = request.body.decode(errors="replace")
        start = f"{text[:_SHOWN_BODY]} ..." if len(text) > _SHOWN_BODY else text
        problem = f"Object 'Kind' is missing in '{text}'"
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {problem} ({start})")
    if sent_version != api_version:
        text = f"the API version in the data ({sent_version}) does not match the expected API version ({api_version})"
        raise bad_request(text)
    if sent_kind != kind:
        raise wrong_kind(obj, kind, api_version)


def wrong_kind(obj: Object, kind: str, api_version: str) -> ApiError:
    """Return the 422 error for an object of another kind than the custom kind of the request."""
    metadata = obj.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    cause = invalid_value("kind", obj["kind"], f"must be {kind}")
    return invalid(api_version.partition("/")[0], str(obj["kind"]), name, [cause])


def _check_body(obj: Object, schema: KindSchema | None) -> Findings:
    """Check *obj* against the schema of its kind.

    :raises ApiError: 400, a value has the wrong type.
    """
    try:
        return check_types(obj, schema)
    except SchemaMismatch as error:
        raise _cannot_be_handled(obj, str(error)) from error


def _other_type(sent_version: Any, sent_kind: Any, api_version: str, kind: str, api_domain: str) -> ApiError:
    for name, value in (("apiVersion", sent_version), ("kind", sent_kind)):
        if not isinstance(value, str):
            problem = f"json: cannot unmarshal {type_name(value)} into Go struct field .{name} of type string"
            return bad_request(f"the object provided is unrecognized (must be of type {kind}): {problem}")
    version = sent_version.rpartition("/")[2]
    problem = f'no kind "{sent_kind}" is registered for version "{sent_version}" in scheme "apiserver_stub"'
    if shapes.of(sent_version, sent_kind, api_domain) is not None:
        if sent_kind == kind:
            return bad_request(
                f"the API version in the data ({sent_version}) does not match the expected API version ({api_version})"
            )
        package = api_version.partition("/")[0].partition(".")[0] if "/" in api_version else "core"
        problem = f"converting ({version}.{sent_kind}) to ({package}.{kind}): unknown conversion"
    return bad_request(f'{sent_kind} in version "{version}" cannot be handled as a {kind}: {problem}')


def check_types(obj: Object, schema: KindSchema | None, *, converts: bool = False) -> Findings:
    """Check *obj* against the schema of its kind, so that each stored object can be written in every encoding.

    :param converts: *obj* was converted from decoded values, as by strategic merge patches and server-side apply.
    :raises SchemaMismatch: a value has the wrong type.
    """
    try:
        findings = schema.check(obj, converts=converts) if schema is not None else Findings()
    except RecursionError:
        raise SchemaMismatch("json: exceeded max depth") from None
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise SchemaMismatch("json: cannot unmarshal into Go struct field metadata")
    return findings


def report(
    request: Request,
    unknown: Sequence[str],
    duplicates: Sequence[str] = (),
    repeats: Sequence[yamlsafe.Repeat] = (),
    more: Sequence[str] = (),
    *,
    duplicates_first: bool = False,
) -> str:
    """Ignore or report unknown and duplicate fields, as the query option ``fieldValidation`` requires.

    :param repeats: duplicate fields of a YAML body.
    :param more: messages about other problems; they come first.
    :param duplicates_first: duplicate fields are reported before unknown ones.
    :returns: the reason for rejecting the request, or an empty text; warnings are added to *request*.
    """
    mode = request.query.get("fieldValidation")
    groups = [[f'unknown field "{path}"' for path in unknown], [f'duplicate field "{path}"' for path in duplicates]]
    texts = [*more, *(text for group in (reversed(groups) if duplicates_first else groups) for text in group)]
    lines = [f'line {line}: key "{key}" already set in map' for line, key in repeats]
    if mode == "Ignore" or not (texts or lines):
        return ""
    if mode == "Strict":
        if lines:
            texts.insert(0, "\n  ".join(("yaml: unmarshal errors:", *lines)))
        return f"strict decoding error: {', '.join(texts)}"
    request.warnings += [*lines, *texts]
    return ""


def _cannot_be_handled(obj: Object, problem: str) -> ApiError:
    kind, version = obj["kind"], obj["apiVersion"].rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')


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
    strategy.canonicalize(obj)
    await context.admission.validate(call)
    return obj


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
        new["metadata"] = {**new["metadata"], "generation": (before.get("generation") or 0) + 1}
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
    strategy.canonicalize(new)
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


def check_options(request: Request, kind: str) -> None:
    """Validate the query options of a write.

    :raises ApiError: 422, an option is invalid.
    """
    if not request.query:
        return
    wrong: list[tuple[str, str, str]] = []
    runs = request.query.all("dryRun")
    if any(value != "All" for value in runs):
        shown = ", ".join(f'"{value}"' for value in runs)
        text = f'Unsupported value: []string{{{shown}}}: supported values: "All"'
        wrong.append(("FieldValueNotSupported", text, "dryRun"))
    manager = request.query.get("fieldManager")
    for cause in validate_field_manager(manager, "fieldManager"):
        wrong.append((cause.reason, cause.message, cause.field))
    validation = request.query.get("fieldValidation")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        wrong.append(("FieldValueNotSupported", text, "fieldValidation"))
    if wrong:
        raise invalid_options(request, kind, wrong)


def invalid_options(request: Request, kind: str, wrong: list[tuple[str, str, str]]) -> ApiError:
    """Return the 422 error for query options; *wrong* has the reason, message and field of each problem."""
    meta = request.identity.group("meta")
    texts = [f"{field}: {message}" for _, message, field in wrong]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes: list[dict[str, Any]] = [
        {"reason": reason, "message": message, "field": field} for reason, message, field in wrong
    ]
    return ApiError(
        422,
        "Invalid",
        f'{kind}.{meta} "" is invalid: {text}',
        {"group": meta, "kind": kind, "causes": causes},
    )
