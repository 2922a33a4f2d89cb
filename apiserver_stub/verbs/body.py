"""Bodies of writes: decode an object and check it against the schema of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, invalid, invalid_value
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import Findings, SchemaMismatch, merge_repeated, repeated
from apiserver_stub.schema.kind_schema import defined
from nodeagent.base import yamlsafe

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.schema.kind_schema import KindSchema

_SHOWN_BODY = 30
"""Number of characters of a body that an error repeats."""


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

    :raises ApiError: 400 or 422, one of them is missing, another one or not a text.
    """
    sent_version, sent_kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    text = request.body.decode(errors="replace")
    if problem := kind_problem(obj, text):
        start = f"{text[:_SHOWN_BODY]} ..." if len(text) > _SHOWN_BODY else text
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {problem} ({start})")
    if sent_version != api_version:
        text = f"the API version in the data ({sent_version}) does not match the expected API version ({api_version})"
        raise bad_request(text)
    if sent_kind != kind and request.info.subresource != "status":  # Updates of the status keep the stored kind.
        raise wrong_kind(obj, kind, api_version)
    obj["kind"] = kind


def kind_problem(obj: Object, text: str) -> str:
    """Return the reason why the kind of *obj*, an object of a custom kind, cannot be read from *text*, if any."""
    for name in ("kind", "apiVersion"):
        if not isinstance(value := obj.get(name) or "", str):
            wrong = f"json: cannot unmarshal {type_name(value)} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {wrong}"
    return "" if obj.get("kind") else f"Object 'Kind' is missing in '{text}'"


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
    if not (unknown or duplicates or repeats or more):
        return ""
    mode = request.query.get("fieldValidation")
    groups = [[f'unknown field "{path}"' for path in unknown], [f'duplicate field "{path}"' for path in duplicates]]
    texts = [*more, *(text for group in (reversed(groups) if duplicates_first else groups) for text in group)]
    lines = [f'line {line}: key "{key}" already set in map' for line, key in repeats]
    if mode == "Ignore":
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
