"""Bearer tokens, checked by the API server through token reviews.

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
            "authentication.webhook needs an API server: give --kubeconfig, or set authentication.webhook.enabled: "
            "false and authentication.x509.clientCAFile, or enableServer: false"
        )
    # A flood of unknown tokens is not to use up the rate of the agent's own requests.
    api = context.new_api(config.platform_api_qps, config.platform_api_burst)
    return (WebhookAuthenticator(context, api),)


class WebhookAuthenticator:
    """Asks about each token once; yes and no are remembered for ``cacheTTL``, by the token's hash."""

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
            user = await self._results.get(key, lambda: self._ask(token))
        except ApiError as error:
            _log.error("Token cannot be reviewed", extra={"err": str(error)})
            raise Unauthenticated(f"the bearer token cannot be checked: {error}") from error
        if user is None:
            raise Unauthenticated("the bearer token is not valid")
        return user

    async def _ask(self, token: Secret[str]) -> tuple[User | None, float]:
        status = await review(self._api, TOKEN_REVIEWS, {"token": token.reveal()}, self._clock)
        return (_user(status.get("user") or {}) if status.get("authenticated") is True else None), self._seconds


def _user(told: Mapping[str, Any]) -> User | None:
    name = told.get("username")
    if not name:
        return None
    extra = {key: tuple(values or ()) for key, values in (told.get("extra") or {}).items()}
    return User(name, tuple(told.get("groups") or ()), told.get("uid") or "", extra)
