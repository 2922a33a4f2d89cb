"""Service accounts of pods for providers with ``tokenAttributes``: annotations and a token bound to the pod."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from cachetools import TLRUCache

from nodeagent.base import identity
from nodeagent.base.aio import Clock
from nodeagent.base.secret import MASK
from nodeagent.contracts.api import SERVICE_ACCOUNTS, Api
from nodeagent.contracts.configuration import ServiceAccountTokenAttributes
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod
from nodeagent_plugins.credential_exec.protocol import ProviderFailure

_MAX_TOKENS = 4096
_USED_SHARE = 0.8
"""Share of a token's lifetime after which a new one is requested."""


class ProviderSkipped(Exception):
    """The provider is not used for the pod; the message is a sentence part."""


@dataclass(frozen=True, slots=True)
class PodAccount:
    """Service account of a pod, as the provider receives it."""

    namespace: str
    name: str
    uid: str
    annotations: tuple[tuple[str, str], ...]
    """The annotations that the configuration names, sorted."""
    token: str = field(repr=False)
    scope: Hashable
    """Key of the responses that apply to the account, or to the token."""

    def masked(self) -> PodAccount:
        """Return the account with a masked token, for display."""
        return replace(self, token=MASK)


class PodAccounts:
    """Reads service accounts and requests tokens for one provider.

    :param api: the API client; ``None`` if there is none, then pods with a service account cannot be served.
    """

    def __init__(self, attributes: ServiceAccountTokenAttributes, api: Api | None, clock: Clock) -> None:
        self._attributes, self._api, self._clock = attributes, api, clock
        self._tokens: TLRUCache[Hashable, tuple[str, float]] = TLRUCache(
            _MAX_TOKENS, lambda _key, entry, _now: entry[1], timer=clock.now
        )

    @property
    def is_token_password(self) -> bool:
        """True if a response may contain the token itself as password."""
        return self._attributes.cache_type == "Token"

    async def read(self, pod: Pod | None) -> PodAccount | None:
        """Return the service account of *pod* with a token, or ``None`` if it has none and none is required.

        :raises ProviderSkipped: a required service account or annotation is missing.
        :raises ProviderFailure: the service account or its token is not available.
        """
        name = "" if pod is None else pod.spec.service_account_name
        if pod is None or not name:
            if self._attributes.require_service_account:
                raise ProviderSkipped("the pod has no service account" if pod else "there is no pod")
            return None
        if self._api is None:
            raise ProviderFailure("failed to get service account: there is no API server")
        try:
            account = await self._api.get(SERVICE_ACCOUNTS, name, pod.namespace, into=dict)
        except NodeAgentError as error:
            raise ProviderFailure(f"failed to get service account: {error}") from error
        metadata: dict[str, Any] = account.get("metadata") or {}
        annotations = self._annotations(metadata.get("annotations") or {})
        uid = metadata.get("uid", "")
        token = await self._token(self._api, pod, name, uid)
        scope: tuple[Hashable, ...] = (pod.namespace, name, uid, annotations)
        if self.is_token_password:
            scope = (*scope, hashlib.sha256(token.encode()).hexdigest())
        return PodAccount(pod.namespace, name, uid, annotations, token, scope)

    def _annotations(self, present: dict[str, str]) -> tuple[tuple[str, str], ...]:
        required = self._attributes.required_service_account_annotation_keys
        missing = next((key for key in required if key not in present), None)
        if missing is not None:
            raise ProviderSkipped(f"the service account has no annotation {missing}")
        keys = {*required, *self._attributes.optional_service_account_annotation_keys}
        return tuple(sorted((key, present[key]) for key in keys if key in present))

    async def _token(self, api: Api, pod: Pod, name: str, uid: str) -> str:
        """Return a cached or new token for the pod's service account.

        :raises ProviderFailure: the token request failed.
        """
        key = (pod.namespace, name, uid, pod.name, pod.uid)
        cached = self._tokens.get(key)
        if cached is not None:
            return cached[0]
        request = {
            "apiVersion": f"{identity.current().group('authentication')}/v1",
            "kind": "TokenRequest",
            # The precondition prevents a token for a new account of the same name, whose annotations were not read.
            "metadata": {"uid": uid},
            "spec": {
                "audiences": [self._attributes.service_account_token_audience],
                "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid},
            },
        }
        try:
            response = await api.create(SERVICE_ACCOUNTS, request, pod.namespace, subresource="token", name=name)
            status = response["status"]
            token, expires_at = str(status["token"]), datetime.fromisoformat(status["expirationTimestamp"])
        except NodeAgentError as error:
            raise ProviderFailure(f"failed to get service account token: {error}") from error
        except (KeyError, TypeError, ValueError):
            raise ProviderFailure("failed to get service account token: the response has no token") from None
        left = (expires_at - self._clock.wall()).total_seconds()
        self._tokens[key] = token, self._clock.now() + left * _USED_SHARE
        return token
