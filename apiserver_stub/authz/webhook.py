"""The webhook authorizer, which posts SubjectAccessReviews to a service.

spec: opt.authorization-webhook-config-file, opt.authorization-webhook-version,
opt.authorization-webhook-cache-authorized-ttl, opt.authorization-webhook-cache-unauthorized-ttl
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz import NO_OPINION, AuthorizationResult, Rules
from apiserver_stub.cel import CelError, Expression
from apiserver_stub.schema.null_times import unset_creation_time
from apiserver_stub.webhook import Poster, WebhookError
from nodeagent.base.aio import Clock, SystemClock, TaskOwner
from nodeagent.base.aio.call_cache import CallCache
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

_CACHE_SIZE = 8192
_LONGEST_CACHED_TEXT = 10_000
_LONGEST_WAIT_SECONDS = 60.0
"""Maximum wait of a request; the call itself may continue for later requests."""
_FAILED = 'an error on the server ("unknown") has prevented the request from succeeding'
_NO_RULES = "webhook authorizer does not support user rule resolution"
_CONTRADICTION = "webhook subject access review returned both allow and deny response"


class WebhookSettings(Struct, frozen=True):
    """Review version, cache durations and match conditions of a webhook."""

    version: str = "v1beta1"
    """API version of the reviews: ``v1`` or ``v1beta1``."""
    authorized_seconds: float = 300.0
    unauthorized_seconds: float = 30.0
    on_failure: Literal["no-opinion", "deny"] = "no-opinion"
    conditions: tuple[Expression, ...] = ()
    """Expressions over ``request``, the spec of the review; the service is called only if all are true."""
    shows_null_times: bool = True
    """``True`` if reviews have the creation timestamp null, as in early releases."""


class WebhookAuthorizer:
    """Authorizer that calls *service*; results are cached, and concurrent equal requests share a call."""

    def __init__(
        self,
        service: Poster,
        settings: WebhookSettings,
        tasks: TaskOwner,
        identity: Identity,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._service, self._settings = service, settings
        self._api_version = f"{identity.group('authorization')}/{settings.version}"
        self._results: CallCache[bytes, AuthorizationResult, WebhookError] = CallCache(
            clock or SystemClock(), tasks, WebhookError, "authorization-webhook", max_results=_CACHE_SIZE
        )

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        spec = review_spec(user, info)
        if self._settings.conditions:
            try:
                if not _applies(self._settings.conditions, spec):
                    return NO_OPINION
            except CelError as error:
                return self._failed(str(error))
        key = objects.encode(spec)
        try:
            return await self._results.get(key, lambda: self._post(key, spec), wait_seconds=_LONGEST_WAIT_SECONDS)
        except (TimeoutError, WebhookError):
            return self._failed(_FAILED)

    def rules(self, user: User, namespace: str) -> Rules:
        """Return no rules, since the service only evaluates requests."""
        return Rules(incomplete=True, errors=[_NO_RULES])

    async def _post(self, key: bytes, spec: Object) -> tuple[AuthorizationResult, float]:
        sent = dict(spec)
        if self._settings.version == "v1beta1" and "groups" in sent:
            sent["group"] = sent.pop("groups")
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": self._api_version,
            "metadata": unset_creation_time(shows_null=self._settings.shows_null_times),
            "spec": sent,
            "status": {"allowed": False},
        }
        try:
            status = _status(await self._service.post(review), self._api_version)
        except WebhookError as error:
            _log.error("Failed to make webhook authorizer request", extra={"err": error})
            raise
        result = _result(status)
        seconds = self._settings.authorized_seconds if status.get("allowed") else self._settings.unauthorized_seconds
        return result, seconds if len(key) <= _LONGEST_CACHED_TEXT else 0.0

    def _failed(self, error: str) -> AuthorizationResult:
        return AuthorizationResult(self._settings.on_failure, "", error)


def review_spec(user: User, info: RequestInfo) -> Object:
    """Return the ``spec`` of a review, without empty fields."""
    attributes: Object
    if info.is_resource:
        members = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
        attributes = {name: value for name in members if (value := getattr(info, name))} | info.selected.encode()
        spec: Object = {"resourceAttributes": attributes}
    else:
        attributes = {name: value for name in ("path", "verb") if (value := getattr(info, name))}
        spec = {"nonResourceAttributes": attributes}
    members_of_user = {
        "user": user.name,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
        "uid": user.uid,
    }
    return spec | {name: value for name, value in members_of_user.items() if value}


def _applies(conditions: Sequence[Expression], spec: Object) -> bool:
    """Return whether all *conditions* are true.

    :raises CelError: the evaluation of a condition failed, and no condition is false.
    """
    request = {"user": "", "groups": [], "extra": {}, "uid": "", **spec}
    if "resourceAttributes" in spec:
        members = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
        request["resourceAttributes"] = dict.fromkeys(members, "") | spec["resourceAttributes"]
    else:
        request["nonResourceAttributes"] = {"path": "", "verb": "", **spec["nonResourceAttributes"]}
    failure: CelError | None = None
    for condition in conditions:
        try:
            if condition.evaluate({"request": request}) is not True:
                return False
        except CelError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return True


def _status(review: Any, api_version: str) -> Object:
    """Return the status of a review.

    :raises WebhookError: the response is not a valid review of *api_version*.
    """
    expected = ("SubjectAccessReview", api_version)
    if not isinstance(review, dict) or (review.get("kind"), review.get("apiVersion")) != expected:
        raise WebhookError("the response is not a SubjectAccessReview of the requested version")
    status = review.get("status")
    if not isinstance(status, dict):
        raise WebhookError("the response has no status")
    for name in ("allowed", "denied"):
        if not isinstance(status.get(name, False), bool):
            raise WebhookError(f"invalid status in the response: {name} is not a boolean")
    return status


def _result(status: Object) -> AuthorizationResult:
    reason = status.get("reason")
    reason = reason if isinstance(reason, str) else ""
    if status.get("denied"):
        return AuthorizationResult("deny", reason, _CONTRADICTION if status.get("allowed") else "")
    return AuthorizationResult("allow" if status.get("allowed") else "no-opinion", reason)
