"""Token authentication: bearer tokens are verified by token reviews of the API server.

spec: type.NodeAgentWebhookAuthentication.enabled, type.NodeAgentWebhookAuthentication.cacheTTL
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.aio.call_cache import CallCache
from nodeagent.base.secret import Secret
from nodeagent.contracts.api import Api
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.reviews import TOKEN_REVIEWS, review
from nodeagent.contracts.server import Authenticator, RequestCredentials, ServerConfigError, Unauthenticated, User
from nodeagent.errors import ApiError

_log = logging.getLogger(__name__)


@hookimpl
def nodeagent_provide_authenticators(context: ServerContext) -> Sequence[Authenticator]:
    config = context.config
    if not config.authentication.webhook.enabled:
        return ()
    if context.new_api is None:
        raise ServerConfigError(
            "authentication.webhook requires an API server: set --kubeconfig, or set authentication.webhook.enabled: "
            "false and authentication.x509.clientCAFile, or enableServer: false"
        )
    # Separate rate limit, so that many invalid tokens do not delay the agent's own requests.
    api = context.new_api(config.platform_api_qps, config.platform_api_burst)
    return (WebhookAuthenticator(context, api),)


class WebhookAuthenticator:
    """Reviews each token once; results are cached for ``cacheTTL`` by the token's hash."""

    def __init__(self, context: AgentContext, api: Api) -> None:
        self._api, self._clock = api, context.clock
        self._seconds = context.config.authentication.webhook.cache_ttl.seconds
        self._results: CallCache[bytes, User | None, ApiError] = CallCache(
            context.clock, context.tasks, ApiError, "token review"
        )

    async def authenticate(self, credentials: RequestCredentials) -> User | None:
        token = credentials.token
        if token is None:
            return None
        key = hashlib.sha256(token.reveal().encode(errors="surrogateescape")).digest()
        try:
            user = await self._results.get(key, lambda: self._review(token))
        except ApiError as error:
            _log.error("Unable to authenticate the request due to an error", extra={"err": str(error)})
            raise Unauthenticated(f"failed to verify the bearer token: {error}") from error
        if user is None:
            raise Unauthenticated("invalid bearer token")
        return user

    async def _review(self, token: Secret[str]) -> tuple[User | None, float]:
        status = await review(self._api, TOKEN_REVIEWS, {"token": token.reveal()}, self._clock)
        return (_user(status.get("user") or {}) if status.get("authenticated") is True else None), self._seconds


def _user(status: Mapping[str, Any]) -> User | None:
    name = status.get("username")
    if not name:
        return None
    extra = {key: tuple(values or ()) for key, values in (status.get("extra") or {}).items()}
    return User(name, tuple(status.get("groups") or ()), status.get("uid") or "", extra)
