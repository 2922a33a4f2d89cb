"""Webhook token authentication.

spec: opt.authentication-token-webhook-config-file, opt.authentication-token-webhook-cache-ttl,
opt.authentication-token-webhook-version
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Sequence
from typing import Any

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected
from apiserver_stub.schema.null_times import unset_creation_time
from apiserver_stub.webhook import Poster, WebhookError
from nodeagent.base.aio import Clock, SystemClock, TaskOwner
from nodeagent.base.aio.call_cache import CallCache
from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

_MAX_WAIT_SECONDS = 30.0
"""Timeout of a request that waits for the webhook; the call itself continues for later requests."""


class WebhookTokens:
    """Authenticator that sends TokenReviews to *service*; results without errors are cached for *ttl_seconds*.

    Concurrent requests with the same token share one call.
    """

    def __init__(
        self,
        service: Poster,
        api_audiences: Sequence[str],
        tasks: TaskOwner,
        identity: Identity,
        *,
        version: str,
        ttl_seconds: float,
        shows_null_times: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._service, self._api_audiences = service, tuple(api_audiences)
        self._api_version = f"{identity.group('authentication')}/{version}"
        self._metadata = unset_creation_time(shows_null=shows_null_times)
        self._ttl, self._key = ttl_seconds, secrets.token_bytes(32)
        self._users: CallCache[bytes, AuthenticatedUser | Rejected | None, WebhookError] = CallCache(
            clock or SystemClock(), tasks, WebhookError, "token-webhook"
        )

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return the user of *token* according to the service, ``None`` if it does not authenticate the token.

        :raises Rejected: the service reports an error, or is unavailable.
        """
        text = "\n".join((token, *audiences))
        key = hmac.digest(self._key, text.encode(errors="surrogateescape"), "sha256")
        try:
            found = await self._users.get(
                key, lambda: self._review(token, tuple(audiences)), wait_seconds=_MAX_WAIT_SECONDS
            )
        except TimeoutError:
            raise Rejected("webhook: timed out waiting for the response") from None
        except WebhookError as error:
            raise Rejected(f"webhook: {error}") from error
        if isinstance(found, Rejected):
            raise Rejected(str(found))
        return found

    async def _review(
        self, token: str, audiences: tuple[str, ...]
    ) -> tuple[AuthenticatedUser | Rejected | None, float]:
        review = {
            "kind": "TokenReview",
            "apiVersion": self._api_version,
            "metadata": self._metadata,
            "spec": {"token": token, **({"audiences": list(audiences)} if audiences else {})},
            "status": {"user": {}},
        }
        try:
            found = _read(await self._service.post(review), self._api_version, audiences, self._api_audiences)
        except WebhookError as error:
            _log.error("Failed to make webhook authenticator request", extra={"err": error})
            raise
        return found, self._ttl


def _read(
    review: Any, api_version: str, audiences: tuple[str, ...], api_audiences: tuple[str, ...]
) -> AuthenticatedUser | Rejected | None:
    """Return the result in the response.

    :raises WebhookError: the response is not a TokenReview of the requested version.
    """
    if not isinstance(review, dict) or review.get("kind") != "TokenReview" or review.get("apiVersion") != api_version:
        raise WebhookError("invalid response: not a TokenReview of the requested version")
    status = review.get("status")
    status = status if isinstance(status, dict) else {}
    error = status.get("error")
    if status.get("authenticated") is not True:
        return Rejected(str(error)) if error else None
    user = status.get("user")
    if not isinstance(user, dict) or not isinstance(user.get("username", ""), str):
        raise WebhookError("invalid response: no user")
    named = status.get("audiences")
    confirmed = tuple(named) if isinstance(named, list) and named else api_audiences
    valid_for = tuple(audience for audience in audiences if audience in confirmed)
    if not valid_for:
        return None
    extra = user.get("extra")
    more = {key: _texts(values) for key, values in extra.items()} if isinstance(extra, dict) else {}
    return AuthenticatedUser(
        User(user.get("username", ""), str(user.get("uid") or ""), _texts(user.get("groups")), more), valid_for
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
