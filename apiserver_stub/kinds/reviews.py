"""Reviews: authentication and authorization checks through the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.kinds.registry import Resource

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


def resources(settings: KindSettings) -> list[Resource]:
    authentication, authorization = map(settings.identity.group, ("authentication", "authorization"))

    def review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
        plural = f"{kind.lower()}s"
        return Resource(group, "v1", kind, plural, namespaced=namespaced, verbs=("create",))

    return [
        review(authentication, "TokenReview"),
        review(authentication, "SelfSubjectReview"),
        review(authorization, "SubjectAccessReview"),
        review(authorization, "SelfSubjectAccessReview"),
        review(authorization, "SelfSubjectRulesReview"),
        review(authorization, "LocalSubjectAccessReview", namespaced=True),
    ]
