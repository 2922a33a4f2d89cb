"""Validation of the rules by which webhooks and admission policies match requests."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, not_supported, required
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.names import path_problems

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")


def validate_rule(rule: Object, field: str) -> list[Cause]:
    """Return the errors in a rule with operations."""
    operations = rule.get("operations") or []
    causes = _validate_list(operations, f"{field}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            causes.append(not_supported(f"{field}.operations[{index}]", operation, OPERATIONS))
    causes += _validate_list(rule.get("apiGroups") or [], f"{field}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    causes += _validate_list(versions, f"{field}.apiVersions", "API versions")
    causes += [required(f"{field}.apiVersions[{index}]") for index, version in enumerate(versions) if not version]
    causes += _validate_resources(rule.get("resources") or [], f"{field}.resources")
    if (scope := rule.get("scope")) is not None and scope not in SCOPES:
        causes.append(not_supported(f"{field}.scope", scope, SCOPES))
    return causes


def validate_named_rule(rule: Object, field: str) -> list[Cause]:
    """Return the errors in a rule that may be limited to named objects."""
    causes: list[Cause] = []
    names = rule.get("resourceNames") or []
    for index, name in enumerate(names):
        entry = f"{field}.resourceNames[{index}]"
        causes += invalid_each(entry, name, path_problems(name))
        if name in names[:index]:
            causes.append(duplicate(entry, name))
    return causes + validate_rule(rule, field)


def validate_match_resources(match: Object | None, field: str) -> list[Cause]:
    """Return the errors in the resources that an admission policy or its binding matches."""
    if match is None:
        return []
    causes = validate_choice(match.get("matchPolicy"), f"{field}.matchPolicy", MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        causes += validate_selector(match.get(name), f"{field}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(name) or ()):
            causes += validate_named_rule(rule, f"{field}.{name}[{index}]")
    return causes


def validate_choice(value: str | None, field: str, supported: Sequence[str]) -> list[Cause]:
    """Return an error for a *value* that is set and not *supported*."""
    return [] if value is None or value in supported else [not_supported(field, value, supported)]


def _validate_list(values: list[str], field: str, label: str) -> list[Cause]:
    if not values:
        return [required(field)]
    if len(values) > 1 and "*" in values:
        return [invalid_value(field, values, f"if '*' is present, must not specify other {label}")]
    return []


def _validate_resources(resources: list[str], field: str) -> list[Cause]:
    causes = [] if resources else [required(field)]
    with_any_subresource: set[str] = set()
    of_any_resource: set[str] = set()
    plain = False  # As upstream, only the last resource without a subresource decides.
    for index, text in enumerate(resources):
        entry = f"{field}[{index}]"
        resource, slash, subresource = text.partition("/")
        if not text:
            causes.append(required(entry))
            continue
        if not slash:
            plain = text != "*"
            continue
        if resource in with_any_subresource:
            causes.append(invalid_value(entry, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in of_any_resource:
            causes.append(invalid_value(entry, text, f"if '*/{subresource}' is present, must not specify {text}"))
        if subresource == "*":
            with_any_subresource.add(resource)
        if resource == "*":
            of_any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid_value(field, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid_value(field, resources, detail))
    return causes
