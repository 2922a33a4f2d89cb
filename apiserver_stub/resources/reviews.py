"""Questions about callers and their rights: answered at once, never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub import objects
from apiserver_stub.authn.methods import Rejected
from apiserver_stub.objects import Object
from apiserver_stub.reply import Reply
from apiserver_stub.request import RequestInfo, User
from apiserver_stub.resources.registry import ActionHandler, Resource
from apiserver_stub.status import bad_request, invalid, invalid_value
from apiserver_stub.verbs.writing import read_object
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.options import Options
    from apiserver_stub.request import Request

_AUTHENTICATION = identity.current().group("authentication")
_AUTHORIZATION = identity.current().group("authorization")


def resources(options: Options) -> list[Resource]:
    def review(group: str, kind: str, action: ActionHandler, *, namespaced: bool = False) -> Resource:
        plural = f"{kind.lower()}s"
        return Resource(group, "v1", kind, plural, namespaced=namespaced, verbs=("create",), action=action)

    return [
        review(_AUTHENTICATION, "TokenReview", review_token),
        review(_AUTHENTICATION, "SelfSubjectReview", review_self),
        review(_AUTHORIZATION, "SubjectAccessReview", review_access),
        review(_AUTHORIZATION, "SelfSubjectAccessReview", review_own_access),
        review(_AUTHORIZATION, "LocalSubjectAccessReview", review_access, namespaced=True),
    ]


async def review_token(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say whose token it is."""
    review = read_object(request, resource.kind, resource.api_version)
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        known = await server.authenticator.tokens.authenticate(spec["token"], spec.get("audiences") or ())
    except Rejected as error:
        review["status"] = {"user": {}, "error": str(error)}
    else:
        review["status"] = {
            "authenticated": True,
            "user": _user_info(known.user),
            "audiences": list(known.audiences),
        }
    return Reply(201, obj=review)


async def review_self(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say who asks."""
    review = read_object(request, resource.kind, resource.api_version)
    review["metadata"]["creationTimestamp"] = objects.now()
    review["status"] = {"userInfo": _user_info(request.user)}
    return Reply(201, obj=review)


async def review_own_access(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say whether the caller may."""
    review = read_object(request, resource.kind, resource.api_version)
    return _answer(server, resource, review, request.user)


async def review_access(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say whether the user of the review may."""
    review = read_object(request, resource.kind, resource.api_version)
    spec = review.get("spec") or {}
    groups = tuple(spec.get("groups") or ())
    if not spec.get("user") and not groups:
        cause = invalid_value("spec.user", "", "at least one of user or group must be specified")
        raise invalid(resource.group, resource.kind, "", [cause])
    wanted = (spec.get("resourceAttributes") or {}).get("namespace") or ""
    if resource.namespaced and wanted != request.info.namespace:
        cause = invalid_value("spec.resourceAttributes.namespace", wanted, "must match metadata.namespace")
        raise invalid(resource.group, resource.kind, "", [cause])
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    user = User(spec.get("user") or "", spec.get("uid") or "", groups, extra)
    return _answer(server, resource, review, user)


def _answer(server: ApiServer, resource: Resource, review: Object, user: User) -> Reply:
    spec = review.get("spec") or {}
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = invalid_value("spec.resourceAttributes", None, detail)
        raise invalid(resource.group, resource.kind, "", [cause])
    if about is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        cause = invalid_value("spec.nonResourceAttributes", None, detail)
        raise invalid(resource.group, resource.kind, "", [cause])
    if path is not None:
        info = RequestInfo(path.get("verb") or "", path.get("path") or "")
    else:
        wanted: Object = about or {}
        names = ("group", "version", "resource", "subresource", "namespace", "name")
        info = RequestInfo(wanted.get("verb") or "", "", *(wanted.get(name) or "" for name in names))
    allowed, reason = server.authorizer.authorize(user, info)
    status: dict[str, Any] = {"allowed": allowed}
    if reason:
        status["reason"] = reason
    review["status"] = status
    return Reply(201, obj=review)


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
