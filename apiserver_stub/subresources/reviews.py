"""Responses to reviews of tokens, users and access, which are not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import ALL, reviewed_objects
from apiserver_stub.apimachinery.status import Cause, bad_request, invalid
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authz import aggregate
from apiserver_stub.schema.null_times import unset_creation_time
from apiserver_stub.validation.reviews import (
    validate_attributes,
    validate_local_attributes,
    validate_review_metadata,
    validate_subject,
)
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.field_manager import track_create
from apiserver_stub.verbs.preparation import clean_metadata, settle_namespace
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.write_options import check_options
from nodeagent.base.selectors import SelectorError, parse_field_selector

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.authn import Authenticator
    from apiserver_stub.authz import Chain
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext

_NODE_FIELD = "spec.nodeName"


class Reviews:
    """The kinds of the groups ``authentication`` and ``authorization``.

    :param selects: access reviews may be for some objects only (spec: gate.AuthorizeWithSelectors).
    """

    def __init__(
        self, context: VerbContext, authenticator: Authenticator, authorizer: Chain, *, selects: bool = False
    ) -> None:
        self._context, self._authenticator, self._authorizer = context, authenticator, authorizer
        self._selects = selects

    async def review_token(self, request: Request, resource: Resource) -> Reply:
        """Return the user of a token; other fields of the requested status are kept."""
        call = await self._admitted(request, resource)
        review = call.obj
        spec = review.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        await self._context.admission.validate(call)
        status: Object = {**(review.get("status") or {})}
        status.pop("authenticated", None)
        try:
            known = await self._authenticator.review(spec["token"], spec.get("audiences") or ())
        except Rejected as error:
            status["error"] = str(error)
        else:
            if known is not None:
                status |= {"authenticated": True, "user": _user_info(known.user), "audiences": list(known.audiences)}
        status.setdefault("user", {})
        review["status"] = status
        return Reply(201, obj=review)

    async def review_self(self, request: Request, resource: Resource) -> Reply:
        """Return the user of the request."""
        call = await self._admitted(request, resource)
        await self._context.admission.validate(call)
        status = {"userInfo": _user_info(request.user)}
        return Reply(201, obj={**_head(resource, {"creationTimestamp": objects.now()}), "status": status})

    async def review_own_access(self, request: Request, resource: Resource) -> Reply:
        """Return the decision about the user of the request."""
        call = await self._admitted(request, resource)
        review = call.obj
        _reject(validate_attributes(review.get("spec") or {}) + validate_review_metadata(review), resource)
        await self._context.admission.validate(call)
        return await self._decide(review, request.user)

    async def review_access(self, request: Request, resource: Resource) -> Reply:
        """Return the decision about the user of the review."""
        call = await self._admitted(request, resource)
        review = call.obj
        spec = review.get("spec") or {}
        causes = validate_attributes(spec) + validate_subject(spec)
        causes += validate_review_metadata(review, namespaced=resource.namespaced)
        if resource.namespaced:
            causes += validate_local_attributes(spec, request.info.namespace)
        _reject(causes, resource)
        await self._context.admission.validate(call)
        extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)
        return await self._decide(review, user)

    async def review_own_rules(self, request: Request, resource: Resource) -> Reply:
        """List the access of the user of the request in a namespace, where it can be listed."""
        call = await self._admitted(request, resource)
        review = call.obj
        namespace = (review.get("spec") or {}).get("namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        await self._context.admission.validate(call)
        rules = self._authorizer.rules(request.user, namespace)
        status = {"resourceRules": rules.resources, "nonResourceRules": rules.paths, "incomplete": rules.incomplete}
        if rules.errors:
            status["evaluationError"] = aggregate(rules.errors)
        metadata = unset_creation_time(shows_null=self._context.settings.shows_null_times)
        return Reply(201, obj={**_head(resource, metadata), "spec": {}, "status": status})

    async def _admitted(self, request: Request, resource: Resource) -> AdmissionRequest:
        """Return the review of the body after the mutating plugins; the others validate it after its own rules.

        :raises ApiError: 400, 415 or 422, the body or an option is invalid; or the error of a plugin.
        """
        check_options(request, "CreateOptions")
        review = read_object(request, resource.kind, resource.api_version)
        clean_metadata(request, review["metadata"])
        settle_namespace(request, resource, review["metadata"])
        track_create(request, resource, review)
        call = AdmissionRequest("CREATE", request, resource, review, dry_run=request.dry_run)
        await self._context.admission.admit(call)
        return call

    async def _decide(self, review: Object, user: User) -> Reply:
        spec = review.get("spec") or {}
        attributes: Object = spec.get("resourceAttributes") or {}
        path: Object | None = spec.get("nonResourceAttributes")
        if path is not None:
            info = RequestInfo(path.get("verb") or "", path.get("path") or "")
        else:
            info = RequestInfo(
                attributes.get("verb") or "",
                "",
                attributes.get("group") or "",
                attributes.get("version") or "*",
                attributes.get("resource") or "",
                attributes.get("subresource") or "",
                attributes.get("namespace") or "",
                attributes.get("name") or "",
                selected_node=_selected_node(attributes.get("fieldSelector") or {}),
                selected=reviewed_objects(attributes) if self._selects else ALL,
            )
        result = await self._authorizer.authorize(user, info)
        status: dict[str, Any] = {"allowed": result.allowed}
        if result.decision == "deny":
            status["denied"] = True
        if result.reason:
            status["reason"] = result.reason
        if result.error:
            status["evaluationError"] = result.error
        if self._context.settings.shows_null_times:
            review["metadata"].setdefault("creationTimestamp", None)
        review["status"] = status
        return Reply(201, obj=review)


def _selected_node(selector: Object) -> str:
    """Return the node that the field selector of a review requires, empty if there is none."""
    for requirement in selector.get("requirements") or ():
        values = requirement.get("values") or []
        if (requirement.get("key"), requirement.get("operator")) == (_NODE_FIELD, "In") and len(values) == 1:
            return str(values[0])
    try:
        return parse_field_selector(selector.get("rawSelector") or "").pinned(_NODE_FIELD) or ""
    except SelectorError:
        return ""


def _head(resource: Resource, metadata: Object) -> Object:
    """Return the first fields of a review without those of the request."""
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
    }


def _reject(causes: list[Cause], resource: Resource) -> None:
    """Reject an invalid review.

    :raises ApiError: 422; its details have the group only.
    """
    if causes:
        error = invalid(resource.group, "", "", causes)
        if error.details is not None:
            del error.details["kind"]
        raise error


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
