"""Validation of flow schemas."""

from __future__ import annotations

from collections.abc import Sequence

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
from apiserver_stub.defaulting.flow_control_objects import EXEMPT, mandatory_schemas
from nodeagent.base.names import label_problems, subdomain_problems

_MAX_PRECEDENCE = 10_000
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
"""Kinds of subjects and the fields that name them."""
_REPORTED_AFTER = {"Group": ("serviceAccount", "user"), "ServiceAccount": ("user", "group")}
_NAMESPACE_RULE = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(schema: Object) -> list[Cause]:
    """Return the errors in a flow schema."""
    name, spec = schema["metadata"].get("name") or "", schema.get("spec") or {}
    causes = _validate_spec(name, spec)
    fixed = mandatory_schemas().get(name)
    if fixed is not None and spec != fixed:
        causes.append(invalid_value("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return causes + validate_condition_types(schema)


def validate_condition_types(obj: Object) -> list[Cause]:
    """Return the errors in the types of the conditions of a flow schema or priority level."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        kind, field = condition.get("type") or "", f"status.conditions[{index}].type"
        if kind in seen:
            causes.append(duplicate(field, kind))
        seen.add(kind)
        if not kind:
            causes.append(required(field, "must not be empty"))
    return causes


def _validate_spec(name: str, spec: Object) -> list[Cause]:
    field, precedence, causes = "spec.matchingPrecedence", spec.get("matchingPrecedence") or 0, []
    if precedence <= 0:
        causes.append(invalid_value(field, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        causes.append(invalid_value(field, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    if precedence == 1 and name != EXEMPT:
        causes.append(invalid_value(field, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    if (method := spec.get("distinguisherMethod")) is not None and method.get("type") not in _METHODS:
        causes.append(not_supported("spec.distinguisherMethod.type", method, _METHODS))
    level = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    field = "spec.priorityLevelConfiguration.name"
    if level:
        causes += invalid_each(field, level, subdomain_problems(level))
    else:
        causes.append(required(field, "must reference a priority level"))
    for index, rule in enumerate(spec.get("rules") or ()):
        causes += _validate_rule(rule, f"spec.rules[{index}]")
    return causes


def _validate_rule(rule: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, subject in enumerate(rule.get("subjects") or ()):
        causes += _validate_subject(subject, f"{field}.subjects[{index}]")
    if not rule.get("subjects"):
        causes.append(required(f"{field}.subjects", "subjects must contain at least one value"))
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        causes.append(required(field, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for index, resources in enumerate(rule.get("resourceRules") or ()):
        causes += _validate_resource_rule(resources, f"{field}.resourceRules[{index}]")
    for index, paths in enumerate(rule.get("nonResourceRules") or ()):
        causes += _validate_path_rule(paths, f"{field}.nonResourceRules[{index}]")
    return causes


def _validate_subject(subject: Object, field: str) -> list[Cause]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        return [not_supported(f"{field}.kind", kind, tuple(_SUBJECTS))]
    member = _SUBJECTS[kind]
    named = subject.get(member)
    if named is None:
        causes = [required(f"{field}.{member}", f"{member} is required when subject kind is '{kind}'")]
    else:
        causes = _validate_name(kind, named, f"{field}.{member}")
    kinds = {member: kind for kind, member in _SUBJECTS.items()}
    for other in _REPORTED_AFTER.get(kind, ("serviceAccount", "group")):
        if subject.get(other) is not None:
            causes.append(
                forbidden_value(f"{field}.{other}", f"{other} is forbidden when subject kind is not '{kinds[other]}'")
            )
    return causes


def _validate_name(kind: str, named: Object, field: str) -> list[Cause]:
    name, causes = named.get("name") or "", []
    if not name:
        causes.append(required(f"{field}.name"))
    if kind != "ServiceAccount":
        return causes
    if name not in ("", "*"):
        causes += invalid_each(f"{field}.name", name, subdomain_problems(name))
    if namespace := named.get("namespace") or "":
        causes += invalid_each(f"{field}.namespace", namespace, label_problems(namespace))
    else:
        causes.append(required(f"{field}.namespace", "must specify namespace for service account"))
    return causes


def _validate_path_rule(rule: Object, field: str) -> list[Cause]:
    causes = _validate_verbs(rule.get("verbs") or [], f"{field}.verbs")
    field, paths = f"{field}.nonResourceURLs", rule.get("nonResourceURLs") or []
    if not paths:
        causes.append(required(field, "nonResourceURLs must contain at least one value"))
    elif "*" in paths:
        causes += _validate_wildcard(paths, field, "non-resource URLs")
    else:
        for index, path in enumerate(paths):
            causes += [invalid_value(f"{field}[{index}]", path, problem) for problem in _path_problem(path)]
    return causes


def _validate_resource_rule(rule: Object, field: str) -> list[Cause]:
    causes = _validate_verbs(rule.get("verbs") or [], f"{field}.verbs")
    for name, shown, other in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        if not (values := rule.get(name) or []):
            causes.append(required(f"{field}.{name}", f"resource rules must supply at least one {shown}"))
        elif "*" in values:
            causes += _validate_wildcard(values, f"{field}.{name}", other)
    field, namespaces = f"{field}.namespaces", rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        causes.append(required(field, detail))
    elif "*" in namespaces:
        causes += _validate_wildcard(namespaces, field, "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            problems = (_NAMESPACE_RULE + problem for problem in label_problems(namespace))
            causes += invalid_each(f"{field}[{index}]", namespace, problems)
    return causes


def _validate_verbs(verbs: Sequence[str], field: str) -> list[Cause]:
    if not verbs:
        return [required(field, "verbs must contain at least one value")]
    if "*" in verbs:
        return _validate_wildcard(verbs, field, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(field, verbs, _VERBS)]


def _validate_wildcard(values: Sequence[str], field: str, others: str) -> list[Cause]:
    if len(values) == 1:
        return []
    return [invalid_value(field, values, f"if '*' is present, must not specify other {others}")]


def _path_problem(path: str) -> list[str]:
    if path == "/":
        return []
    for is_invalid, problem in (
        (not path, "must not be empty"),
        (not path.startswith("/"), "must start with slash"),
        (" " in path, "must not contain white-space"),
        ("//" in path, "must not contain double slash"),
        ("*" in path and (path.count("*") > 1 or not path.endswith("/*")), "wildcard can only do suffix matching"),
    ):
        if is_invalid:
            return [problem]
    return []
