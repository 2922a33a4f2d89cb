"""Validation of ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.cel import BOOL, NULL, STRING
from apiserver_stub.cel.admission import Checker
from apiserver_stub.validation.admission_rules import validate_choice
from apiserver_stub.validation.conditions import validate_conditions
from apiserver_stub.validation.expressions import validate_expression
from apiserver_stub.validation.jsonpath import jsonpath_problem
from apiserver_stub.validation.policy_rules import validate_binding_rules, validate_policy_rules
from nodeagent.base.names import qualified_name_problems
from nodeagent.base.release import OLDEST, Release

_SPELLED_CORRECTLY = Release(1, 36)
"""First release whose errors in bindings name ``matchResources`` correctly."""
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_ANNOTATIONS_LIMIT = 20
_ANNOTATION_LIMIT_BYTES = 5 * 1024
_NO_EFFECT = "validations or auditAnnotations must contain at least one item"
_REPEATED_FAILURES = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_LINE_BREAK = re.compile("[\n\r]")


def validate_policy(new: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a policy; *old* is the stored policy."""
    spec: Object = new.get("spec") or {}
    causes, checker = validate_policy_rules(spec, None if old is None else old.get("spec") or {})
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        return [*causes, required("spec.validations", _NO_EFFECT), required("spec.auditAnnotations", _NO_EFFECT)]
    for index, item in enumerate(validations):
        causes += _validate_validation(checker, item, f"spec.validations[{index}]")
    causes += _validate_annotations(checker, annotations, new["metadata"].get("name") or "")
    return causes


def validate_policy_status(status: Object) -> list[Cause]:
    """Return the errors in the status of a policy."""
    causes: list[Cause] = []
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or ()
    for index, item in enumerate(warnings):
        field = f"status.typeChecking.expressionWarnings[{index}]"
        if not item.get("warning"):
            causes.append(required(f"{field}.warning"))
        reference = (item.get("fieldRef") or "").strip()
        if not reference:
            causes.append(required(f"{field}.fieldRef"))
        elif problem := jsonpath_problem(reference):
            causes.append(invalid_value(f"{field}.fieldRef", reference, f"invalid JSONPath: {problem}"))
    return causes + validate_conditions(status.get("conditions"), "status.conditions")


def validate_binding(spec: Object, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the specification of a policy binding."""
    field = "spec.matchResources" if release >= _SPELLED_CORRECTLY else "spec.matchResouces"
    causes = validate_binding_rules(spec, field)
    causes += _validate_actions(spec.get("validationActions") or [], "spec.validationActions")
    return causes


def _validate_validation(checker: Checker, item: Object, field: str) -> Iterable[Cause]:
    expression, message = item.get("expression") or "", item.get("message") or ""
    if expression.strip():
        yield from validate_expression(checker, expression, f"{field}.expression", (BOOL,))
    else:
        yield required(f"{field}.expression", "expression is not specified")
    if text := item.get("messageExpression"):
        if text.strip():
            without_authorizer = checker.without_authorizer()
            yield from validate_expression(without_authorizer, text, f"{field}.messageExpression", (STRING,))
        else:
            yield invalid_value(f"{field}.messageExpression", text, "must be non-empty if specified")
    if message and not message.strip():
        yield invalid_value(f"{field}.message", message, "message must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid_value(f"{field}.message", message, "message must not contain line breaks")
    yield from validate_choice(item.get("reason"), f"{field}.reason", _REASONS)


def _validate_annotations(checker: Checker, annotations: Sequence[Object], policy: str) -> Iterable[Cause]:
    field = "spec.auditAnnotations"
    if len(annotations) > _ANNOTATIONS_LIMIT:
        yield invalid_value(field, annotations, f"must not have more than {_ANNOTATIONS_LIMIT} auditAnnotations")
    seen: set[str] = set()
    for index, item in enumerate(annotations):
        entry, key = f"{field}[{index}]", item.get("key") or ""
        if policy:
            name = f"{policy}/{key}"
            yield from invalid_each(f"{entry}.key", name, qualified_name_problems(name))
        else:
            yield invalid_value(f"{entry}.key", key, "requires metadata.name be non-empty")
        text = (item.get("valueExpression") or "").strip()
        if not text:
            yield required(f"{entry}.valueExpression", "valueExpression is not specified")
        elif len(text.encode()) > _ANNOTATION_LIMIT_BYTES:
            yield required(f"{entry}.valueExpression", f"must not exceed {_ANNOTATION_LIMIT_BYTES} bytes in length")
        else:
            yield from validate_expression(checker, text, f"{entry}.valueExpression", (STRING, NULL))
        if key in seen:
            yield duplicate(f"{entry}.key", key)
        seen.add(key)


def _validate_actions(actions: Sequence[str], field: str) -> Iterable[Cause]:
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{field}[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            yield duplicate(f"{field}[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        yield invalid_value(field, actions, _REPEATED_FAILURES)
    if not actions:
        yield required(field, "at least one validation action is required")
