"""Bearer tokens that a remote service knows.

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
from apiserver_stub.webhook import Poster, WebhookError
from nodeagent.base import identity
from nodeagent.base.aio import Clock, SystemClock, TaskOwner
from nodeagent.base.aio.call_cache import CallCache

_log = logging.getLogger(__name__)

_LONGEST_WAIT_SECONDS = 30.0
"""How long a request waits; the service may be asked on for those that come after."""


class WebhookTokens:
    """Sends token reviews to *service*; clear answers, good or bad, are remembered for *ttl_seconds*.

    Requests that come with the same token while the service is being asked share its answer.
    """

    def __init__(
        self,
        service: Poster,
        api_audiences: Sequence[str],
        tasks: TaskOwner,
        *,
        version: str,
        ttl_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        self._service, self._api_audiences = service, tuple(api_audiences)
        self._api_version = f"{identity.current().group('authentication')}/{version}"
        self._ttl, self._key = ttl_seconds, secrets.token_bytes(32)
        self._users: CallCache[bytes, AuthenticatedUser | Rejected | None, WebhookError] = CallCache(
            clock or SystemClock(), tasks, WebhookError, "token-webhook"
        )

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return whose token the service says it is.

        :raises Rejected: the service says what is wrong with it, or cannot be asked.
        """
        text = "\n".join((token, *audiences))
        key = hmac.digest(self._key, text.encode(errors="surrogateescape"), "sha256")
        try:
            found = await self._users.get(
                key, lambda: self._ask(token, tuple(audiences)), wait_seconds=_LONGEST_WAIT_SECONDS
            )
        except TimeoutError:
            raise Rejected("webhook: no answer in time") from None
        except WebhookError as error:
            raise Rejected(f"webhook: {error}") from error
        if isinstance(found, Rejected):
            raise Rejected(str(found))
        return found

    async def _ask(self, token: str, audiences: tuple[str, ...]) -> tuple[AuthenticatedUser | Rejected | None, float]:
        review = {
            "kind": "TokenReview",
            "apiVersion": self._api_version,
            "metadata": {"creationTimestamp": None},
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
    """Return what the answer says.

    :raises WebhookError: it is no token review of that version.
    """
    if not isinstance(review, dict) or review.get("kind") != "TokenReview" or review.get("apiVersion") != api_version:
        raise WebhookError("answered something other than a TokenReview of the version asked for")
    status = review.get("status")
    status = status if isinstance(status, dict) else {}
    error = status.get("error")
    if status.get("authenticated") is not True:
        return Rejected(str(error)) if error else None
    user = status.get("user")
    if not isinstance(user, dict) or not isinstance(user.get("username", ""), str):
        raise WebhookError("answered without a user")
    named = status.get("audiences")
    known = tuple(named) if isinstance(named, list) and named else api_audiences
    good_for = tuple(audience for audience in audiences if audience in known)
    if not good_for:
        return None
    extra = user.get("extra")
    more = {key: _texts(values) for key, values in extra.items()} if isinstance(extra, dict) else {}
    return AuthenticatedUser(
        User(user.get("username", ""), str(user.get("uid") or ""), _texts(user.get("groups")), more), good_for
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
