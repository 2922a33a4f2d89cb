"""Service account tokens: issued for an account, perhaps bound to a pod, good as long as both exist."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from apiserver_stub import objects
from apiserver_stub.authn.jwt import SigningKey, TokenError
from apiserver_stub.objects import Object
from apiserver_stub.request import User
from apiserver_stub.store import Store
from nodeagent.base import identity

_LEEWAY_SECONDS = 60
_BOUND = {"pod": "core/pods", "secret": "core/secrets"}


class ServiceAccountTokens:
    """Issues tokens and knows those it issued; *issuer* is also the audience of the API itself."""

    def __init__(self, store: Store, key: SigningKey, issuer: str, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._key, self._issuer, self._now = store, key, issuer, now

    @property
    def api_audiences(self) -> list[str]:
        return [self._issuer]

    @property
    def issuer(self) -> str:
        return self._issuer

    def public_keys(self) -> list[dict[str, str]]:
        """Return the keys by which others can verify tokens."""
        return [self._key.public_jwk()]

    def issue(
        self, account: Object, audiences: Sequence[str], seconds: int, bound: tuple[str, Object] | None
    ) -> tuple[str, float]:
        """Return a token for *account* and when it expires (seconds since the epoch); *bound* is a kind and object."""
        metadata, issued = account["metadata"], int(self._now())
        about: dict[str, Any] = {"namespace": metadata["namespace"]}
        if bound is not None:
            kind, obj = bound
            about[kind.lower()] = {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
        about["serviceaccount"] = {"name": metadata["name"], "uid": metadata["uid"]}
        claims = {
            "aud": list(audiences),
            "exp": issued + seconds,
            "iat": issued,
            "iss": self._issuer,
            identity.current().label_domain: about,
            "nbf": issued,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        return self._key.sign(claims), float(issued + seconds)

    def authenticate(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return the account of *token*, unless it expired or what it is bound to is gone."""
        if token.count(".") != 2:
            return None
        try:
            claims = self._key.verify(token)
        except TokenError:
            return None
        now = self._now()
        if claims.get("iss") != self._issuer or not _number(claims, "nbf") - _LEEWAY_SECONDS <= now:
            return None
        if now > _number(claims, "exp") + _LEEWAY_SECONDS:
            return None
        if not set(claims.get("aud") or ()).intersection(audiences or self.api_audiences):
            return None
        about = claims.get(identity.current().label_domain) or {}
        namespace, account = about.get("namespace", ""), about.get("serviceaccount") or {}
        if not self._exists("core/serviceaccounts", namespace, account):
            return None
        if not all(self._exists(_BOUND[kind], namespace, about[kind]) for kind in _BOUND if kind in about):
            return None
        extra = {}
        if pod := about.get("pod"):
            extra = {
                identity.current().label("pod-name", "authentication"): (pod["name"],),
                identity.current().label("pod-uid", "authentication"): (pod["uid"],),
            }
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(claims["sub"], account["uid"], groups, extra)

    def _exists(self, collection: str, namespace: str, reference: Object) -> bool:
        name = reference.get("name") or ""
        record = self._store.collection(collection).get(objects.key_of(namespace, name))
        return record is not None and objects.decode(record.data)["metadata"]["uid"] == reference.get("uid")


def _number(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
