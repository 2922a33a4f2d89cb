"""Defaults of bindings: the API group of their role and of the users and groups among their subjects."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults
from nodeagent.base import identity

_GROUP = identity.current().group("rbac.authorization")


def _subject_group(subject: Object) -> None:
    if subject.get("kind") in ("User", "Group"):
        subject.setdefault("apiGroup", _GROUP)


def _role_group(binding: Object) -> None:
    role = binding.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or _GROUP


BINDING = Defaults(rule=_role_group, below={"subjects": Defaults(rule=_subject_group)})
"""Table of a RoleBinding or ClusterRoleBinding."""
