"""Service account tokens bound to pods."""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nodeagent.base import identity
from nodeagent.base.structs import Struct
from nodeagent.contracts.api import SERVICE_ACCOUNTS, Api
from nodeagent.contracts.objects import BoundToken
from nodeagent.errors import ApiError
from nodeagent.model.pod import Pod

if TYPE_CHECKING:
    from nodeagent.contracts.context import NodeContext

_log = logging.getLogger(__name__)

_LONGEST_SECONDS = 24 * 3600.0
_JITTER_SECONDS = 10.0
_USED_SHARE = 0.8


class _Key(Struct, frozen=True):
    namespace: str
    account: str
    audience: str
    seconds: int
    pod_uid: str


class _Cached(Struct, frozen=True):
    token: BoundToken
    refresh_at: float
    """Seconds since the epoch."""


class Tokens:
    """Tokens by pod, refreshed after 80 % of their lifetime or a day.

    Not a ``cachetools.TTLCache``, which would evict the token whose refresh failed.
    """

    def __init__(self, context: NodeContext, api: Api) -> None:
        self._context, self._api = context, api
        self._cached: dict[_Key, _Cached] = {}
        self._failing: set[_Key] = set()

    async def get(self, pod: Pod, audience: str, seconds: int) -> BoundToken:
        """Return a token for the pod's service account; a failed refresh keeps a valid one.

        :raises ApiError: there is no valid token.
        """
        account = pod.spec.service_account_name or pod.spec.service_account or "default"
        key = _Key(pod.namespace, account, audience, seconds, pod.uid)
        now = self._context.clock.wall().timestamp()
        cached = self._cached.get(key)
        if cached is not None and now < cached.refresh_at:
            return cached.token
        try:
            token, seconds = await self._request(key, pod)
        except ApiError as error:
            if cached is None or cached.token.expires_at.timestamp() <= now:
                raise
            if key not in self._failing:
                self._failing.add(key)
                _log.error("Couldn't update token", extra={"pod": pod.full_name, "err": str(error)})
            return cached.token
        self._failing.discard(key)
        self._cached[key] = _Cached(token, _refresh_at(token.expires_at, seconds))
        return token

    def forget_pod(self, pod_uid: str) -> None:
        """Drop the tokens of a pod."""
        self._cached = {key: cached for key, cached in self._cached.items() if key.pod_uid != pod_uid}
        self._failing = {key for key in self._failing if key.pod_uid != pod_uid}

    async def _request(self, key: _Key, pod: Pod) -> tuple[BoundToken, int]:
        """Return a new token and its lifetime in seconds, which the server may shorten."""
        spec: dict[str, Any] = {
            "expirationSeconds": key.seconds,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid},
        }
        if key.audience:
            spec["audiences"] = [key.audience]
        body = {
            "apiVersion": f"{identity.current().group('authentication')}/v1",
            "kind": "TokenRequest",
            "spec": spec,
        }
        response = await self._api.create(SERVICE_ACCOUNTS, body, key.namespace, subresource="token", name=key.account)
        status = response.get("status") or {}
        try:
            expires_at = datetime.fromisoformat(status["expirationTimestamp"]).astimezone(UTC)
            seconds = int((response.get("spec") or {}).get("expirationSeconds") or key.seconds)
            return BoundToken(status["token"], expires_at), seconds
        except (KeyError, TypeError, ValueError):
            raise ApiError(f"token request for service account {key.account!r}: the response has no token") from None


def _refresh_at(expires_at: datetime, seconds: int) -> float:
    """Return the time of the next refresh, with jitter so that the tokens of a node are not refreshed together."""
    issued_at = expires_at.timestamp() - seconds
    jitter = random.random() * _JITTER_SECONDS  # noqa: S311
    return issued_at + min(seconds * _USED_SHARE, _LONGEST_SECONDS) - jitter
