"""Bearer tokens that a remote service knows.

spec: opt.authentication-token-webhook-config-file, opt.authentication-token-webhook-cache-ttl,
opt.authentication-token-webhook-version
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Sequence
from typing import Any, Protocol

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected
from apiserver_stub.webhook import WebhookError
from nodeagent.base import identity
from nodeagent.base.aio import Clock, SystemClock, TaskOwner

_log = logging.getLogger(__name__)

_CACHE_SIZE = 4096
_LONGEST_WAIT_SECONDS = 30.0
"""How long a request waits; the service may be asked on for those that come after."""


class Poster(Protocol):
    """Asks the service."""

    async def post(self, body: Any) -> Any:
        """Return the decoded answer.

        :raises WebhookError: there is none.
        """
        ...


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
        self._service, self._api_audiences, self._tasks = service, tuple(api_audiences), tasks
        self._api_version = f"{identity.current().group('authentication')}/{version}"
        self._ttl, self._clock = ttl_seconds, clock or SystemClock()
        self._key = secrets.token_bytes(32)
        self._cache: dict[bytes, tuple[float, AuthenticatedUser | Rejected | None]] = {}
        self._asked: dict[bytes, asyncio.Task[AuthenticatedUser | Rejected | None]] = {}

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return whose token the service says it is.

        :raises Rejected: the service says what is wrong with it, or cannot be asked.
        """
        text = "\n".join((token, *audiences))
        key = hmac.digest(self._key, text.encode(errors="surrogateescape"), "sha256")
        cached = self._cache.get(key)
        if cached is not None and cached[0] > self._clock.now():
            found = cached[1]
        else:
            task = self._asked.get(key)
            if task is None:
                task = self._asked[key] = self._tasks.start(self._ask(key, token, tuple(audiences)), "token-webhook")
            try:
                async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                    found = await asyncio.shield(task)
            except TimeoutError:
                raise Rejected("webhook: no answer in time") from None
        if isinstance(found, Rejected):
            raise Rejected(str(found))
        return found

    async def _ask(self, key: bytes, token: str, audiences: tuple[str, ...]) -> AuthenticatedUser | Rejected | None:
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
            return Rejected(f"webhook: {error}")
        finally:
            self._asked.pop(key, None)
        if self._ttl > 0:
            if len(self._cache) >= _CACHE_SIZE:
                del self._cache[next(iter(self._cache))]
            self._cache.pop(key, None)
            self._cache[key] = (self._clock.now() + self._ttl, found)
        return found


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
