"""Validation of roles and of their bindings."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, not_supported, quote, required
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.names import path_problems
from nodeagent.base.names import subdomain_problems

_SELECTORS = "aggregationRule.clusterRoleSelectors"
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")
_ROLE_REFERENCE = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


def role_name_problems(value: str) -> list[str]:
    """Return why *value* is not the name of a role or a binding; for bases of generated names the same rules hold."""
    return path_problems(value)


def validate_rules(role: Object, *, namespaced: bool) -> list[Cause]:
    """Return the errors in the rules of a role; rules of a namespace cannot apply to paths."""
    causes: list[Cause] = []
    for index, rule in enumerate(role.get("rules") or ()):
        causes += _validate_rule(rule, f"rules[{index}]", namespaced=namespaced)
    return causes


def validate_aggregation(role: Object) -> list[Cause]:
    """Return the errors in the aggregation rule of a cluster role."""
    if (rule := role.get("aggregationRule")) is None:
        return []
    selectors: list[Object] = rule.get("clusterRoleSelectors") or []
    if not selectors:
        return [required(_SELECTORS, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    causes: list[Cause] = []
    for index, selector in enumerate(selectors):
        field = f"{_SELECTORS}[{index}]"
        if found := validate_selector(selector, field):
            causes += [*found, invalid_value(field, None, "invalid label selector.")]
    return causes


def validate_binding(binding: Object, rbac_group: str, *, namespaced: bool) -> list[Cause]:
    """Return the errors in a binding; one without a namespace refers to cluster roles only.

    :param rbac_group: API group of roles, users and groups.
    """
    role, causes = binding["roleRef"], []
    group, kind, name = (role.get(member) or "" for member in ("apiGroup", "kind", "name"))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if group != rbac_group:
        causes.append(not_supported("roleRef.apiGroup", group, (rbac_group,)))
    if kind not in kinds:
        causes.append(not_supported("roleRef.kind", kind, kinds))
    if not name:
        causes.append(required("roleRef.name"))
    else:
        causes += invalid_each("roleRef.name", name, role_name_problems(name))
    for index, subject in enumerate(binding.get("subjects") or ()):
        causes += _validate_subject(subject, f"subjects[{index}]", rbac_group, namespaced=namespaced)
    return causes


def validate_role_unchanged(new: Object, old: Object) -> list[Cause]:
    """Return the error of a binding whose role changed."""
    role = new["roleRef"]
    if role == old["roleRef"]:
        return []
    texts = (f"{label}:{quote(role.get(member) or '')}" for label, member in _ROLE_REFERENCE)
    text = f"Invalid value: rbac.RoleRef{{{', '.join(texts)}}}: cannot change roleRef"
    return [Cause("FieldValueInvalid", text, "roleRef")]


def _validate_rule(rule: Object, field: str, *, namespaced: bool) -> list[Cause]:
    causes = []
    if not rule.get("verbs"):
        causes.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    if paths := rule.get("nonResourceURLs"):
        if namespaced:
            causes.append(_invalid_paths(field, paths, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(_invalid_paths(field, paths, detail))
        return causes
    if not rule.get("apiGroups"):
        causes.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return causes


def _invalid_paths(field: str, paths: Sequence[str], detail: str) -> Cause:
    return invalid_value(f"{field}.nonResourceURLs", list(paths), detail)


def _validate_subject(subject: Object, field: str, rbac_group: str, *, namespaced: bool) -> list[Cause]:
    kind, name, group = (subject.get(member) or "" for member in ("kind", "name", "apiGroup"))
    causes = [] if name else [required(f"{field}.name")]
    if kind not in _SUBJECT_KINDS:
        return [*causes, not_supported(f"{field}.kind", kind, _SUBJECT_KINDS)]
    if kind != "ServiceAccount":
        return causes if group == rbac_group else [*causes, not_supported(f"{field}.apiGroup", group, (rbac_group,))]
    if name:
        causes += invalid_each(f"{field}.name", name, subdomain_problems(name))
    if group:
        causes.append(not_supported(f"{field}.apiGroup", group, ("",)))
    if not namespaced and not subject.get("namespace"):
        causes.append(required(f"{field}.namespace"))
    return causes
