"""Validation of token and access reviews, which are evaluated and not stored."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, quote, required

_ATTRIBUTES = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_SELECTORS = ("fieldSelector", "labelSelector")
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 1 << 32


def validate_attributes(spec: Object) -> list[Cause]:
    """Return the errors in the attributes of an access review."""
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about is None and path is None:
        return [invalid_value("spec.resourceAttributes", None, _ATTRIBUTES)]
    if about is not None and path is not None:
        causes = [_invalid_path(path, "cannot be specified in combination with resourceAttributes")]
    else:
        causes = []
    return causes + [cause for name in _SELECTORS for cause in _validate_selector((about or {}).get(name), name)]


def _validate_selector(selector: Object | None, name: str) -> list[Cause]:
    """Return the errors in the selector of the objects that a request concerns."""
    if selector is None:
        return []
    field = f"spec.resourceAttributes.{name}"
    raw, requirements = selector.get("rawSelector") or "", selector.get("requirements") or []
    causes = []
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        causes.append(invalid_value(f"{field}.rawSelector", raw, detail))
    if not raw and not requirements:
        detail = f"when {field} is specified, requirements or rawSelector is required"
        causes.append(required(f"{field}.requirements", detail))
    for index, requirement in enumerate(requirements):
        causes += _validate_requirement(requirement, f"{field}.requirements[{index}]")
    return causes


def _validate_requirement(requirement: Object, field: str) -> list[Cause]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn") and not values:
        return [required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden_value(f"{field}.values", detail)]
    return [] if requirement.get("key") else [required(f"{field}.key", "must be specified")]


def validate_subject(spec: Object) -> list[Cause]:
    """Return the error of an access review that names neither a user nor a group."""
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_value("spec.user", "", "at least one of user or group must be specified")]


def validate_review_metadata(review: Object, *, namespaced: bool = False) -> list[Cause]:
    """Return the error of an access review with metadata; only the namespace of a local one is allowed."""
    allowed = ("managedFields", "namespace") if namespaced else ("managedFields",)
    given = {name: value for name, value in review["metadata"].items() if value and name not in allowed}
    if not given:
        return []
    return [invalid_value("metadata", given, "must be empty except for namespace" if namespaced else "must be empty")]


def validate_local_attributes(spec: Object, namespace: str) -> list[Cause]:
    """Return the errors in the attributes of a review that is local to *namespace*."""
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes = []
    if about is not None and (about.get("namespace") or "") != namespace:
        field = "spec.resourceAttributes.namespace"
        causes.append(invalid_value(field, about.get("namespace") or "", "must match metadata.namespace"))
    if path is not None:
        causes.append(_invalid_path(path, "disallowed on this kind of request"))
    return causes


def validate_token_request(spec: Object) -> list[Cause]:
    """Return the error in how long a requested token is valid."""
    seconds = spec["expirationSeconds"]
    if seconds < _SHORTEST_SECONDS:
        return [invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _LONGEST_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        return [invalid_value("spec.expirationSeconds", seconds, detail)]
    return []


def _invalid_path(path: Object, detail: str) -> Cause:
    shown = f"Path:{quote(path.get('path') or '')}, Verb:{quote(path.get('verb') or '')}"
    text = f"Invalid value: authorization.NonResourceAttributes{{{shown}}}: {detail}"
    return Cause("FieldValueInvalid", text, "spec.nonResourceAttributes")
