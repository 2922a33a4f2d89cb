"""RBAC roles, and their bindings to users, groups and service accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.rbac import binding_defaults
from apiserver_stub.kinds.columns import AGE, CREATED_AT, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.rbac import (
    role_name_problems,
    validate_aggregation,
    validate_binding,
    validate_role_unchanged,
    validate_rules,
)

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


class RoleStrategy(Strategy):
    """Roles and ClusterRoles.

    :param repetitions: number of times that an update reports each error of the new object.
    """

    def __init__(self, repetitions: int, *, namespaced: bool) -> None:
        self._repetitions, self._namespaced = repetitions, namespaced

    def validate(self, new: Object) -> list[Cause]:
        causes = validate_rules(new, namespaced=self._namespaced)
        return causes if self._namespaced else causes + validate_aggregation(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return self.validate(new) * self._repetitions


class BindingStrategy(Strategy):
    """RoleBindings and ClusterRoleBindings.

    :param repetitions: number of times that an update reports each error of the new object.
    """

    def __init__(self, group: str, repetitions: int, *, namespaced: bool) -> None:
        self._group, self._repetitions, self._namespaced = group, repetitions, namespaced
        self._defaults = binding_defaults(group)

    def default(self, new: Object) -> None:
        self._defaults.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_binding(new, self._group, namespaced=self._namespaced)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return self.validate(new) * self._repetitions + validate_role_unchanged(new, old)


def resources(settings: KindSettings) -> list[Resource]:
    group = settings.identity.group("rbac.authorization")
    repeated = repetitions(settings.compatibility_version)

    def role(kind: str, *, namespaced: bool) -> Resource:
        return Resource(
            group,
            "v1",
            kind,
            f"{kind.lower()}s",
            namespaced=namespaced,
            metadata_rules=MetadataRules(whole=repeated),
            strategy=RoleStrategy(repeated, namespaced=namespaced),
            columns=(NAME, CREATED_AT),
            name_problems=role_name_problems,
            create_on_update=True,
        )

    def binding(kind: str, *, namespaced: bool) -> Resource:
        return Resource(
            group,
            "v1",
            kind,
            f"{kind.lower()}s",
            namespaced=namespaced,
            metadata_rules=MetadataRules(whole=repeated),
            strategy=BindingStrategy(group, repeated, namespaced=namespaced),
            columns=_BINDING_COLUMNS,
            name_problems=role_name_problems,
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
