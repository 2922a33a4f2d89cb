"""Validation of admission policies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.cel import BOOL, NULL, STRING, CelError
from apiserver_stub.cel.admission import Checker
from apiserver_stub.cel.identifiers import RESERVED
from apiserver_stub.validation.admission_rules import FAILURE_POLICIES, validate_choice, validate_match_resources
from apiserver_stub.validation.conditions import validate_conditions
from apiserver_stub.validation.expressions import expression_error, validate_expression, validate_match_conditions
from apiserver_stub.validation.jsonpath import jsonpath_problem
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.names import path_problems
from nodeagent.base.names import qualified_name_problems, service_name_problems, subdomain_problems
from nodeagent.base.release import OLDEST, Release

_SPELLED_CORRECTLY = Release(1, 36)
"""First release whose errors in bindings name ``matchResources`` correctly."""
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_ANNOTATIONS_LIMIT = 20
_ANNOTATION_LIMIT_BYTES = 5 * 1024
_NO_EFFECT = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE = "name and selector are mutually exclusive"
_REPEATED_FAILURES = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_LINE_BREAK = re.compile("[\n\r]")
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")


def validate_policy(new: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of an admission policy; *old* is the stored policy."""
    spec: Object = new.get("spec") or {}
    before: Object | None = None if old is None else old.get("spec") or {}
    causes = validate_choice(spec.get("failurePolicy"), "spec.failurePolicy", FAILURE_POLICIES)
    has_params = spec.get("paramKind") is not None
    if has_params:
        causes += validate_param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += validate_match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
    conditions = spec.get("matchConditions")
    if before is None or any(spec.get(name) != before.get(name) for name in ("paramKind", "matchConditions")):
        causes += validate_match_conditions(conditions, "spec.matchConditions", params=has_params)
    checker = Checker(params=has_params, composed=bool(spec.get("variables")))
    for index, variable in enumerate(spec.get("variables") or ()):
        causes += validate_variable(checker, variable, f"spec.variables[{index}]")
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        return [*causes, required("spec.validations", _NO_EFFECT), required("spec.auditAnnotations", _NO_EFFECT)]
    for index, item in enumerate(validations):
        causes += _validate_validation(checker, item, f"spec.validations[{index}]")
    causes += _validate_annotations(checker, annotations, new["metadata"].get("name") or "")
    return causes


def validate_policy_status(status: Object) -> list[Cause]:
    """Return the errors in the status of an admission policy."""
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
    if name := spec.get("policyName"):
        causes = invalid_each("spec.policyName", name, subdomain_problems(name))
    else:
        causes = [required("spec.policyName")]
    if (reference := spec.get("paramRef")) is not None:
        causes += validate_param_ref(reference, "spec.paramRef")
    field = "spec.matchResources" if release >= _SPELLED_CORRECTLY else "spec.matchResouces"
    causes += validate_match_resources(spec.get("matchResources"), field)
    causes += _validate_actions(spec.get("validationActions") or [], "spec.validationActions")
    return causes


def validate_param_kind(kind: Object, field: str) -> list[Cause]:
    """Return the errors in the kind of the parameters of a policy."""
    causes: list[Cause] = []
    name, version_field = kind.get("kind") or "", f"{field}.apiVersion"
    api_version = kind.get("apiVersion") or ""
    group, _, version = api_version.rpartition("/")
    if not api_version:
        causes.append(required(version_field))
    elif "/" in group:
        causes.append(invalid_value(version_field, api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        if group and (problems := subdomain_problems(group)):
            causes.append(invalid_value(version_field, group, ",".join(problems)))
        if not version:
            causes.append(invalid_value(version_field, api_version, "version must be specified"))
        elif problems := service_name_problems(version):
            causes.append(invalid_value(version_field, version, ",".join(problems)))
    if not name:
        causes.append(required(f"{field}.kind"))
    elif problems := service_name_problems(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        causes.append(invalid_value(f"{field}.kind", name, detail))
    return causes


def validate_variable(checker: Checker, variable: Object, field: str) -> Iterable[Cause]:
    """Yield the errors of a variable, and declare it in *checker*."""
    name, text = variable.get("name") or "", variable.get("expression") or ""
    is_identifier = bool(_IDENTIFIER.fullmatch(name)) and name not in RESERVED
    if not name.strip():
        yield required(f"{field}.name", "name is not specified")
    elif not is_identifier:
        yield invalid_value(f"{field}.name", name, "name is not a valid CEL identifier")
    if not text.strip():
        yield required(f"{field}.expression", "expression is not specified")
        return
    try:
        checker.define(name if is_identifier else "", text)
    except CelError as error:
        yield expression_error(text, error, f"{field}.expression")


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


def validate_param_ref(reference: Object, field: str) -> Iterable[Cause]:
    """Yield the errors in the reference of a binding to parameters."""
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        yield from invalid_each(f"{field}.name", name, path_problems(name))
        if selector is not None:
            yield forbidden_value(f"{field}.name", _EXCLUSIVE)
    if selector is not None:
        yield from validate_selector(selector, f"{field}.selector")
        if name:
            yield forbidden_value(f"{field}.selector", _EXCLUSIVE)
    elif not name:
        yield required(field, "one of name or selector must be specified")
    if not (action := reference.get("parameterNotFoundAction")):
        yield required(f"{field}.parameterNotFoundAction")
    else:
        yield from validate_choice(action, f"{field}.parameterNotFoundAction", _NOT_FOUND_ACTIONS)


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
