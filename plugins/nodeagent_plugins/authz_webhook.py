"""Authorization: all authenticated users (AlwaysAllow), or subject access reviews of the API server (Webhook).

spec: config.authorization, type.NodeAgentAuthorization.mode, type.NodeAgentWebhookAuthorization.cacheAuthorizedTTL,
type.NodeAgentWebhookAuthorization.cacheUnauthorizedTTL
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.aio.call_cache import CallCache
from nodeagent.contracts.api import Api
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.reviews import SUBJECT_ACCESS_REVIEWS, review
from nodeagent.contracts.server import AuthorizationAttributes, AuthorizationFailed, Authorizer, ServerConfigError
from nodeagent.errors import ApiError


@hookimpl
def nodeagent_provide_authorizer(context: ServerContext) -> Authorizer:
    config = context.config
    if config.authorization.mode == "AlwaysAllow":
        return AlwaysAllow()
    if context.new_api is None:
        raise ServerConfigError(
            "authorization.mode Webhook requires an API server: set --kubeconfig, authorization.mode: AlwaysAllow "
            "or enableServer: false"
        )
    return WebhookAuthorizer(context, context.new_api(config.platform_api_qps, config.platform_api_burst))


class AlwaysAllow:
    """Allows all authenticated users."""

    async def allows(self, attributes: AuthorizationAttributes) -> bool:
        return True


class WebhookAuthorizer:
    """Sends subject access reviews; allow and deny decisions are cached for separate times."""

    def __init__(self, context: AgentContext, api: Api) -> None:
        webhook = context.config.authorization.webhook
        self._api, self._clock = api, context.clock
        self._yes_seconds = webhook.cache_authorized_ttl.seconds
        self._no_seconds = webhook.cache_unauthorized_ttl.seconds
        self._results: CallCache[Hashable, bool, ApiError] = CallCache(
            context.clock, context.tasks, ApiError, "subject access review"
        )

    async def allows(self, attributes: AuthorizationAttributes) -> bool:
        user = attributes.user
        key = (attributes, tuple(sorted(user.extra.items())))
        try:
            return await self._results.get(key, lambda: self._review(attributes))
        except ApiError as error:
            raise AuthorizationFailed(f"subject access review for {user.name}: {error}") from error

    async def _review(self, attributes: AuthorizationAttributes) -> tuple[bool, float]:
        status = await review(self._api, SUBJECT_ACCESS_REVIEWS, review_spec(attributes), self._clock)
        allowed = status.get("allowed") is True and status.get("denied") is not True
        return allowed, self._yes_seconds if allowed else self._no_seconds


def review_spec(attributes: AuthorizationAttributes) -> Mapping[str, Any]:
    """Return the spec of the subject access review."""
    user = attributes.user
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "resourceAttributes": {
            "verb": attributes.verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": attributes.subresource,
            "name": attributes.node,
        },
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    return spec
