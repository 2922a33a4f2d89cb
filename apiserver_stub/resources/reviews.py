"""Questions about callers and their rights: answered at once, never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub import objects
from apiserver_stub.admission import Call
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authz import aggregate
from apiserver_stub.objects import Object
from apiserver_stub.reply import Reply
from apiserver_stub.request import RequestInfo, User
from apiserver_stub.resources.registry import ActionHandler, Resource
from apiserver_stub.status import Cause, bad_request, invalid, invalid_value, quote
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
        review(_AUTHORIZATION, "SelfSubjectRulesReview", review_own_rules),
        review(_AUTHORIZATION, "LocalSubjectAccessReview", review_access, namespaced=True),
    ]


async def review_token(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say whose token it is."""
    call = await _admitted(server, request, resource)
    review = call.obj
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    await server.admission.validate(call)
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
    call = await _admitted(server, request, resource)
    review = call.obj
    await server.admission.validate(call)
    review["metadata"]["creationTimestamp"] = objects.now()
    review["status"] = {"userInfo": _user_info(request.user)}
    return Reply(201, obj=review)


async def review_own_access(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say whether the caller may."""
    call = await _admitted(server, request, resource)
    review = call.obj
    spec = review.get("spec") or {}
    _refuse(_attribute_causes(spec) + _metadata_causes(review))
    await server.admission.validate(call)
    return await _answer(server, review, request.user)


async def review_access(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Say whether the user of the review may."""
    call = await _admitted(server, request, resource)
    review = call.obj
    spec, metadata, namespace = review.get("spec") or {}, review["metadata"], request.info.namespace
    if resource.namespaced and not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif resource.namespaced and metadata["namespace"] != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    groups = tuple(spec.get("groups") or ())
    causes = _attribute_causes(spec)
    if not spec.get("user") and not groups:
        causes.append(invalid_value("spec.user", "", "at least one of user or group must be specified"))
    causes += _metadata_causes(review, namespaced=resource.namespaced)
    if resource.namespaced:
        causes += _local_causes(spec, namespace)
    _refuse(causes)
    await server.admission.validate(call)
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    user = User(spec.get("user") or "", spec.get("uid") or "", groups, extra)
    return await _answer(server, review, user)


async def review_own_rules(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """List what the caller may in a namespace, as far as it can be listed."""
    call = await _admitted(server, request, resource)
    review = call.obj
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    await server.admission.validate(call)
    rules = server.authorizer.rules(request.user, namespace)
    status = {"resourceRules": rules.resources, "nonResourceRules": rules.paths, "incomplete": rules.incomplete}
    if rules.errors:
        status["evaluationError"] = aggregate(rules.errors)
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"creationTimestamp": None}}
    return Reply(201, obj={**head, "spec": {}, "status": status})


async def _admitted(server: ApiServer, request: Request, resource: Resource) -> Call:
    """Return the review of the body after the plugins that may change it; they judge it once it is known to be whole.

    :raises ApiError: 400 or 415, the body is no such review; or what a plugin says.
    """
    review = read_object(request, resource.kind, resource.api_version)
    call = Call("CREATE", request, resource, review, dry_run=request.dry_run)
    await server.admission.admit(call)
    return call


async def _answer(server: ApiServer, review: Object, user: User) -> Reply:
    spec = review.get("spec") or {}
    wanted: Object = spec.get("resourceAttributes") or {}
    path: Object | None = spec.get("nonResourceAttributes")
    if path is not None:
        info = RequestInfo(path.get("verb") or "", path.get("path") or "")
    else:
        info = RequestInfo(
            wanted.get("verb") or "",
            "",
            wanted.get("group") or "",
            wanted.get("version") or "*",
            wanted.get("resource") or "",
            wanted.get("subresource") or "",
            wanted.get("namespace") or "",
            wanted.get("name") or "",
        )
    verdict = await server.authorizer.authorize(user, info)
    status: dict[str, Any] = {"allowed": verdict.allowed}
    if verdict.decision == "deny":
        status["denied"] = True
    if verdict.reason:
        status["reason"] = verdict.reason
    if verdict.error:
        status["evaluationError"] = verdict.error
    review["metadata"].setdefault("creationTimestamp", None)
    review["status"] = status
    return Reply(201, obj=review)


def _refuse(causes: list[Cause]) -> None:
    """:raises ApiError: 422, there are causes; such a review is named by its group alone."""
    if causes:
        error = invalid(_AUTHORIZATION, "", "", causes)
        if error.details is not None:
            del error.details["kind"]
        raise error


def _attribute_causes(spec: Object) -> list[Cause]:
    path = spec.get("nonResourceAttributes")
    if spec.get("resourceAttributes") is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid_value("spec.resourceAttributes", None, detail)]
    if spec.get("resourceAttributes") is not None and path is not None:
        return [_about_path(path, "cannot be specified in combination with resourceAttributes")]
    return []


def _local_causes(spec: Object, namespace: str) -> list[Cause]:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes = []
    if about is not None and (about.get("namespace") or "") != namespace:
        field = "spec.resourceAttributes.namespace"
        causes.append(invalid_value(field, about.get("namespace") or "", "must match metadata.namespace"))
    if path is not None:
        causes.append(_about_path(path, "disallowed on this kind of request"))
    return causes


def _metadata_causes(review: Object, *, namespaced: bool = False) -> list[Cause]:
    allowed = ("managedFields", "namespace") if namespaced else ("managedFields",)
    given = {name: value for name, value in review["metadata"].items() if value and name not in allowed}
    if not given:
        return []
    detail = "must be empty except for namespace" if namespaced else "must be empty"
    return [invalid_value("metadata", objects.encode(given).decode(), detail)]


def _about_path(path: Object, detail: str) -> Cause:
    shown = f"Path:{quote(path.get('path') or '')}, Verb:{quote(path.get('verb') or '')}"
    text = f"Invalid value: authorization.NonResourceAttributes{{{shown}}}: {detail}"
    return Cause("FieldValueInvalid", text, "spec.nonResourceAttributes")


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
