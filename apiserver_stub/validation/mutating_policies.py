"""Validation of MutatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.cel import CelError
from apiserver_stub.cel.mutation_expressions import PATCH_TYPES, check_mutation
from apiserver_stub.validation.admission_rules import validate_match_resources
from apiserver_stub.validation.policy_rules import validate_binding_rules, validate_policy_rules

_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_REINVOCATIONS = ("IfNeeded", "Never")


def validate_mutating_policy(new: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a policy; *old* is the stored policy."""
    spec: Object = new.get("spec") or {}
    causes, _ = validate_policy_rules(spec, None if old is None else old.get("spec") or {}, _validate_match)
    mutations = spec.get("mutations") or []
    if not mutations:
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    names = ["params"] if spec.get("paramKind") is not None else []
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
    return validate_binding_rules(spec, "spec.matchResources", _validate_match)


def _validate_match(match: Object | None, field: str) -> list[Cause]:
    """Return the errors of the requests that a policy matches; only some operations can be mutated."""
    operations = [
        not_supported(f"{field}.resourceRules.operations", operation, _OPERATIONS)
        for rule in (match or {}).get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _OPERATIONS
    ]
    return validate_match_resources(match, field) + operations


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
