"""Roles, and the bindings that give them to users, groups and accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.authz.rules import quoted
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, CREATED_AT, NAME
from apiserver_stub.resources.registry import Column, Resource, Strategy
from apiserver_stub.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import path_problems, subdomain_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_GROUP = identity.current().group("rbac.authorization")
_SUBJECTS = ("ServiceAccount", "User", "Group")
_SELECTORS = "aggregationRule.clusterRoleSelectors"


class RoleStrategy(Strategy):
    """A rule is about resources or about paths, and a role of a namespace about resources alone."""

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def validate(self, new: Object) -> list[Cause]:
        causes = []
        for index, rule in enumerate(new.get("rules") or ()):
            causes += self._rule_causes(rule, f"rules[{index}]")
        if not self._namespaced and new.get("aggregationRule") is not None:
            causes += _aggregation_causes(new["aggregationRule"])
        return causes

    def _rule_causes(self, rule: Object, where: str) -> list[Cause]:
        causes = []
        if not rule.get("verbs"):
            causes.append(required(f"{where}.verbs", "verbs must contain at least one value"))
        if paths := rule.get("nonResourceURLs"):
            field = f"{where}.nonResourceURLs"
            if self._namespaced:
                causes.append(_wrong_paths(field, paths, "namespaced rules cannot apply to non-resource URLs"))
            if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(_wrong_paths(field, paths, detail))
            return causes
        if not rule.get("apiGroups"):
            causes.append(required(f"{where}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{where}.resources", "resource rules must supply at least one resource"))
        return causes


class BindingStrategy(Strategy):
    """A binding stays with its role; groups of roles and subjects may be left out."""

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def default(self, new: Object) -> None:
        role = new.setdefault("roleRef", {})
        role["apiGroup"] = role.get("apiGroup") or _GROUP
        for subject in new.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = subject.get("apiGroup") or _GROUP

    def validate(self, new: Object) -> list[Cause]:
        role, causes = new["roleRef"], []
        kinds = ("Role", "ClusterRole") if self._namespaced else ("ClusterRole",)
        if role["apiGroup"] != _GROUP:
            causes.append(not_supported("roleRef.apiGroup", role["apiGroup"], (_GROUP,)))
        if role.get("kind") not in kinds:
            causes.append(not_supported("roleRef.kind", role.get("kind") or "", kinds))
        if not role.get("name"):
            causes.append(required("roleRef.name"))
        else:
            causes += [invalid_value("roleRef.name", role["name"], problem) for problem in path_problems(role["name"])]
        for index, subject in enumerate(new.get("subjects") or ()):
            causes += self._subject_causes(subject, f"subjects[{index}]")
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes, role = self.validate(new), new["roleRef"]
        if role != old["roleRef"]:
            shown = f'rbac.RoleRef{{APIGroup:"{role["apiGroup"]}", Kind:"{role.get("kind") or ""}", '
            shown += f'Name:"{role.get("name") or ""}"}}'
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {shown}: cannot change roleRef", "roleRef"))
        return causes

    def _subject_causes(self, subject: Object, where: str) -> list[Cause]:
        kind, name, group = (subject.get(member) or "" for member in ("kind", "name", "apiGroup"))
        causes = [] if name else [required(f"{where}.name")]
        if kind not in _SUBJECTS:
            return [*causes, not_supported(f"{where}.kind", kind, _SUBJECTS)]
        if kind != "ServiceAccount":
            return causes if group == _GROUP else [*causes, not_supported(f"{where}.apiGroup", group, (_GROUP,))]
        causes += [invalid_value(f"{where}.name", name, problem) for problem in subdomain_problems(name) if name]
        if group:
            causes.append(not_supported(f"{where}.apiGroup", group, ("",)))
        if not self._namespaced and not subject.get("namespace"):
            causes.append(required(f"{where}.namespace"))
        return causes


def resources(options: Options) -> list[Resource]:
    def role(kind: str, *, namespaced: bool) -> Resource:
        return Resource(
            _GROUP,
            "v1",
            kind,
            f"{kind.lower()}s",
            namespaced=namespaced,
            metadata_rules=MetadataRules(whole=2),
            strategy=RoleStrategy(namespaced=namespaced),
            columns=(NAME, CREATED_AT),
            name_problems=path_problems,
            create_on_update=True,
        )

    def binding(kind: str, *, namespaced: bool) -> Resource:
        return Resource(
            _GROUP,
            "v1",
            kind,
            f"{kind.lower()}s",
            namespaced=namespaced,
            metadata_rules=MetadataRules(whole=2),
            strategy=BindingStrategy(namespaced=namespaced),
            columns=_BINDING_COLUMNS,
            name_problems=path_problems,
            create_on_update=True,
        )

    return [
        role("ClusterRole", namespaced=False),
        binding("ClusterRoleBinding", namespaced=False),
        role("Role", namespaced=True),
        binding("RoleBinding", namespaced=True),
    ]


def _role_shown(obj: Object) -> str:
    return f"{dig(obj, ('roleRef', 'kind'))}/{dig(obj, ('roleRef', 'name'))}"


def _names(kind: str) -> Column:
    def cell(obj: Object) -> str:
        found = [subject for subject in obj.get("subjects") or () if subject["kind"] == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace') or ''}/{subject['name']}" for subject in found)
        return ", ".join(subject["name"] for subject in found)

    return Column(f"{kind}s", cell, wide=True, description=f"Subjects of kind {kind}.")


_BINDING_COLUMNS = (
    NAME,
    Column("Role", _role_shown, description="The role that is given."),
    AGE,
    _names("User"),
    _names("Group"),
    _names("ServiceAccount"),
)


def _wrong_paths(field: str, paths: list[str], detail: str) -> Cause:
    shown = quoted(paths)[1:-1].replace('" "', '", "')
    return Cause("FieldValueInvalid", f"Invalid value: []string{{{shown}}}: {detail}", field)


def _aggregation_causes(rule: Object) -> list[Cause]:
    selectors = rule.get("clusterRoleSelectors") or []
    if not selectors:
        return [required(_SELECTORS, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    causes = []
    for index, selector in enumerate(selectors):
        causes += validate_selector(selector, f"{_SELECTORS}[{index}]")
    return causes
