"""Authorization of requests, and impersonation."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.request import Query, RequestInfo, User
from apiserver_stub.apimachinery.selected_objects import selected_objects
from apiserver_stub.apimachinery.status import ApiError, details_of, qualified, quote
from apiserver_stub.authn.constrained_impersonation import completed, constrained_permissions
from apiserver_stub.authn.impersonation import ImpersonatedIdentity, NoUserNamed, read_identity
from apiserver_stub.pipeline.error_responses import AuthorizationFailed, PlainError
from apiserver_stub.validation.names import path_problems
from nodeagent.base.logging import v_level
from nodeagent.base.selectors import SelectorError, parse_field_selector

if TYPE_CHECKING:
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.authz import Chain as Authorizer
    from apiserver_stub.pipeline.request_metrics import RequestMetrics
    from apiserver_stub.transport.http import HttpRequest
    from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)


class Authorization:
    """Impersonation and authorization of requests.

    :param constrains: whether users may be permitted to impersonate others for some requests only.
    """

    def __init__(
        self, authorizer: Authorizer, metrics: RequestMetrics, identity: Identity, *, constrains: bool = False
    ) -> None:
        self._authorizer, self._metrics, self._constrains = authorizer, metrics, constrains
        self._user_group = identity.group("authentication")
        """API group of user attributes in permissions to impersonate."""

    async def impersonate(
        self, user: User, http: HttpRequest, info: RequestInfo, audit_context: AuditContext | None
    ) -> User:
        """Return the user that *user* impersonates for the request *info*; *user* itself without headers.

        :raises ApiError: 403, the impersonation is not permitted.
        """
        try:
            identity = read_identity(http.headers, self._user_group)
        except NoUserNamed as error:
            text = f'Internal Server Error: "{http.target}": requested {error} without impersonating a user'
            raise PlainError(500, "InternalError", text) from None
        if identity is None:
            return user
        if self._constrains and await self._permits(user, identity, info):
            other = completed(identity)
        else:
            for permission in identity.permissions(self._user_group):
                await self.authorize(user, permission, audit_context)
            other = identity.user()
        if audit_context is not None:
            audit_context.impersonated(other)
        return other

    async def _permits(self, user: User, identity: ImpersonatedIdentity, info: RequestInfo) -> bool:
        """Return whether *user* may impersonate *identity* for the request *info*, but maybe not for others."""
        for permissions in constrained_permissions(identity, user, info, self._user_group):
            for permission in permissions:
                if not (await self._authorizer.authorize(user, permission)).allowed:
                    break
            else:
                return True
        return False

    async def authorize(self, user: User, info: RequestInfo, audit_context: AuditContext | None) -> None:
        """Return if *user* is authorized.

        :raises ApiError: 403.
        :raises AuthorizationFailed: no authorizer could decide.
        """
        result = await self._authorizer.authorize(user, info)
        if result.error and not result.allowed:
            self._metrics.undecided += 1
            if audit_context is not None:
                audit_context.authorization_failed()
            raise AuthorizationFailed(result.error)
        if audit_context is not None:
            audit_context.authorized(result.allowed, result.reason)
        if result.allowed:
            self._metrics.allowed += 1
            return
        if result.decision == "deny":
            self._metrics.denied += 1
        else:
            self._metrics.no_opinion += 1
        _log.log(v_level(4), "Forbidden", extra={"URI": info.path, "reason": result.reason})
        ending = f": {result.reason}" if result.reason else ""
        if not info.is_resource:
            message = f'forbidden: User {quote(user.name)} cannot {info.verb} path "{info.path}"{ending}'
            raise ApiError(403, "Forbidden", message, {})
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        named = f' "{info.name}"' if info.name else ""
        message = (
            f"{qualified(info.resource, info.group)}{named} is forbidden: User {quote(user.name)} cannot {info.verb} "
            f'resource "{resource}" in API group "{info.group}" {where}{ending}'
        )
        raise ApiError(403, "Forbidden", message, details_of(info.group, info.resource, info.name))


def pinned(info: RequestInfo, query: Query, *, selects: bool = False) -> RequestInfo:
    """Return *info* with the name and node that the field selector of a request for several objects requires.

    The name is authorized and audited.

    :param selects: add all requirements of the selectors.
    """
    if info.verb not in ("list", "watch", "deletecollection") or info.name:
        return info
    if selects and ("fieldSelector" in query or "labelSelector" in query):
        info = replace(info, selected=selected_objects(query.get("fieldSelector"), query.get("labelSelector")))
    if "fieldSelector" not in query:
        return info
    try:
        selector = parse_field_selector(query.get("fieldSelector"))
    except SelectorError:
        return info  # Rejected by the verb.
    if node := selector.pinned("spec.nodeName"):
        info = replace(info, selected_node=node)
    name = selector.pinned("metadata.name") if info.verb != "deletecollection" else ""
    return replace(info, name=name) if name and not path_problems(name) else info
