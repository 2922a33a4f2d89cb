"""Validation of MutatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import Checker
from apiserver_stub.cel.mutation_expressions import PATCH_TYPES, check_mutation
from apiserver_stub.validation.admission_policies import validate_param_kind, validate_param_ref, validate_variable
from apiserver_stub.validation.admission_rules import FAILURE_POLICIES, validate_choice, validate_match_resources
from apiserver_stub.validation.expressions import validate_match_conditions
from nodeagent.base.names import subdomain_problems

_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_REINVOCATIONS = ("IfNeeded", "Never")


def validate_mutating_policy(new: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a policy; *old* is the stored policy."""
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
        causes += _validate_operations(match, "spec.matchConstraints")
    if before is None or any(spec.get(name) != before.get(name) for name in ("paramKind", "matchConditions")):
        conditions = spec.get("matchConditions")
        causes += validate_match_conditions(conditions, "spec.matchConditions", params=has_params)
    checker = Checker(params=has_params, composed=bool(spec.get("variables")))
    for index, variable in enumerate(spec.get("variables") or ()):
        causes += validate_variable(checker, variable, f"spec.variables[{index}]")
    mutations = spec.get("mutations") or []
    if not mutations:
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    names = ["params"] if has_params else []
    names += ["variables"] if spec.get("variables") else []
    for index, item in enumerate(mutations):
        causes += _validate_mutation(item, f"spec.mutations[{index}]", names)
    reinvocation = spec.get("reinvocationPolicy") or ""
    if not reinvocation:
        causes.append(required("spec.reinvocationPolicy"))
    elif reinvocation not in _REINVOCATIONS:
        causes.append(not_supported("spec.reinvocationPolicy", reinvocation, _REINVOCATIONS))
    return causes


def validate_mutating_binding(spec: Object) -> list[Cause]:
    """Return the errors in the specification of a policy binding."""
    if name := spec.get("policyName"):
        causes = invalid_each("spec.policyName", name, subdomain_problems(name))
    else:
        causes = [required("spec.policyName")]
    if (reference := spec.get("paramRef")) is not None:
        causes += validate_param_ref(reference, "spec.paramRef")
    match, field = spec.get("matchResources"), "spec.matchResources"
    return causes + validate_match_resources(match, field) + _validate_operations(match or {}, field)


def _validate_operations(match: Object, field: str) -> list[Cause]:
    """Return the errors of operations that cannot be mutated."""
    return [
        not_supported(f"{field}.resourceRules.operations", operation, _OPERATIONS)
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _OPERATIONS
    ]


def _validate_mutation(item: Object, field: str, names: list[str]) -> Iterable[Cause]:
    kind = item.get("patchType") or ""
    if not kind:
        yield required(f"{field}.patchType")
        return
    if kind not in PATCH_TYPES:
        yield not_supported(f"{field}.patchType", kind, sorted(PATCH_TYPES))
        return
    for other, name in PATCH_TYPES.items():
        path, content = f"{field}.{name}", item.get(name)
        if other != kind:
            if content is not None:
                yield invalid_value(path, f"{{{name}}}", f"must not be specified when patchType is {kind}")
            continue
        text = (content or {}).get("expression") or ""
        if content is None:
            yield required(path, f"must be specified when patchType is {kind}")
        elif not text.strip():
            yield required(f"{path}.expression", "expression is not specified")
        else:
            try:
                check_mutation(text, kind, names)
            except CelError as error:
                yield invalid_value(f"{path}.expression", text, str(error))
