"""Reviews: authentication and authorization checks through the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.kinds.registry import Resource
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_AUTHENTICATION = identity.current().group("authentication")
_AUTHORIZATION = identity.current().group("authorization")


def resources(settings: KindSettings) -> list[Resource]:
    def review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
        plural = f"{kind.lower()}s"
        return Resource(group, "v1", kind, plural, namespaced=namespaced, verbs=("create",))

    return [
        review(_AUTHENTICATION, "TokenReview"),
        review(_AUTHENTICATION, "SelfSubjectReview"),
        review(_AUTHORIZATION, "SubjectAccessReview"),
        review(_AUTHORIZATION, "SelfSubjectAccessReview"),
        review(_AUTHORIZATION, "SelfSubjectRulesReview"),
        review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    ]
