"""Rules that validating and mutating admission policies share, and those of their bindings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, required
from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import Checker
from apiserver_stub.cel.identifiers import RESERVED
from apiserver_stub.validation.admission_rules import FAILURE_POLICIES, validate_choice, validate_match_resources
from apiserver_stub.validation.expressions import expression_error, validate_match_conditions
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.names import path_problems
from nodeagent.base.names import service_name_problems, subdomain_problems

ValidateMatch = Callable[[Object | None, str], list[Cause]]

_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_EXCLUSIVE = "name and selector are mutually exclusive"
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")


def validate_policy_rules(
    spec: Object, old: Object | None, validate_match: ValidateMatch = validate_match_resources
) -> tuple[list[Cause], Checker]:
    """Return the errors in the parameters, the matching and the variables of a policy.

    :param old: specification of the stored policy; its unchanged match conditions are not compiled.
    :param validate_match: returns the errors in the matched requests, at a field.
    :returns: also the checker of expressions that may use the parameters and variables.
    """
    causes = validate_choice(spec.get("failurePolicy"), "spec.failurePolicy", FAILURE_POLICIES)
    has_params = spec.get("paramKind") is not None
    if has_params:
        causes += _validate_param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += validate_match(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
    if old is None or any(spec.get(name) != old.get(name) for name in ("paramKind", "matchConditions")):
        conditions = spec.get("matchConditions")
        causes += validate_match_conditions(conditions, "spec.matchConditions", params=has_params)
    checker = Checker(params=has_params, composed=bool(spec.get("variables")))
    for index, variable in enumerate(spec.get("variables") or ()):
        causes += _validate_variable(checker, variable, f"spec.variables[{index}]")
    return causes, checker


def validate_binding_rules(
    spec: Object, match_field: str, validate_match: ValidateMatch = validate_match_resources
) -> list[Cause]:
    """Return the errors in the policy name, the parameters and the matching of a binding.

    :param match_field: field of errors in the matching.
    :param validate_match: see :func:`validate_policy_rules`.
    """
    if name := spec.get("policyName"):
        causes = invalid_each("spec.policyName", name, subdomain_problems(name))
    else:
        causes = [required("spec.policyName")]
    if (reference := spec.get("paramRef")) is not None:
        causes += _validate_param_ref(reference, "spec.paramRef")
    return causes + validate_match(spec.get("matchResources"), match_field)


def _validate_param_kind(kind: Object, field: str) -> list[Cause]:
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


def _validate_variable(checker: Checker, variable: Object, field: str) -> Iterable[Cause]:
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


def _validate_param_ref(reference: Object, field: str) -> Iterable[Cause]:
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
