"""Defaults of bindings: the API group of their role and of the users and groups among their subjects."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults


def binding_defaults(group: str) -> Defaults:
    """Return the table of a RoleBinding or ClusterRoleBinding; *group* is the API group of roles, users and groups."""

    def default_subject_group(subject: Object) -> None:
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group)

    def default_role_group(binding: Object) -> None:
        role = binding.setdefault("roleRef", {})
        role["apiGroup"] = role.get("apiGroup") or group

    return Defaults(rule=default_role_group, below={"subjects": Defaults(rule=default_subject_group)})
