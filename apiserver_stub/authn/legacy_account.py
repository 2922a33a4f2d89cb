"""Legacy service account tokens, which are stored in secrets and never expire (spec: opt.service-account-lookup).

With lookup enabled, a token is valid only while the secret contains it and its service account exists. A label of the
secret records the day of the last use, to find unused tokens.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn import jwt
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.service_account import account_user, split_account
from apiserver_stub.authn.token_keys import TokenKeys
from apiserver_stub.storage import Keep, Outcome, Put, Record, Store, StoreUnavailable
from nodeagent.base.gates import FeatureGates
from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

ISSUER = "kubernetes/serviceaccount"
_SECRETS = "core/secrets"


class LegacyTokens:
    """Authenticator for tokens in secrets, signed with one of *keys*."""

    def __init__(
        self,
        store: Store,
        keys: TokenKeys,
        identity: Identity,
        *,
        lookup: bool,
        gates: FeatureGates,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._keys, self._lookup, self._gates, self._now = store, keys, lookup, gates, now
        self._identity = identity

    async def user_of(self, token: str) -> User | None:
        """Return the user of *token*, ``None`` if it is not a legacy token.

        :raises Rejected: no key signed it, or the secret or the service account was deleted or replaced.
        """
        try:
            parsed = jwt.parse(token)
        except jwt.TokenError:
            return None
        claims = parsed.claims
        if claims.get("iss") != ISSUER:
            return None
        try:
            parsed.verify(await self._keys.verifying(parsed.key_id))
        except jwt.TokenError as error:
            raise Rejected(str(error)) from None
        namespace, secret, name, uid = (
            self._claim(claims, part)
            for part in ("namespace", "secret.name", "service-account.name", "service-account.uid")
        )
        if split_account(str(claims.get("sub"))) != (namespace, name):
            raise Rejected("sub claim is invalid")
        if self._lookup:
            await self._load(token, namespace, secret, name, uid)
        return account_user(namespace, name, uid)

    async def _load(self, token: str, namespace: str, secret: str, name: str, uid: str) -> None:
        found = self._find(_SECRETS, namespace, secret)
        if found is None or found["metadata"].get("deletionTimestamp"):
            raise Rejected("Token has been invalidated")
        if not hmac.compare_digest(_content(found), token.encode(errors="surrogateescape")):
            raise Rejected("Token does not match server's copy")
        account = self._find("core/serviceaccounts", namespace, name)
        if account is None:
            raise Rejected(f'serviceaccounts "{name}" not found')
        if account["metadata"].get("deletionTimestamp"):
            raise Rejected(f"ServiceAccount {namespace}/{name} has been deleted")
        if account["metadata"]["uid"] != uid:
            raise Rejected(f"ServiceAccount UID ({account['metadata']['uid']}) does not match claim ({uid})")
        await self._mark_used(namespace, found)
        marked = self._identity.label("legacy-token-invalid-since")
        if _labels(found).get(marked) and self._gates.enabled("LegacyServiceAccountTokenCleanUp"):
            raise Rejected(
                f"the token in secret {namespace}/{secret} for service account {namespace}/{name} has been marked "
                f"invalid; use the TokenRequest API, or remove the '{marked}' label to allow it for a while"
            )

    async def _mark_used(self, namespace: str, secret: Object) -> None:
        label, today = self._identity.label("legacy-token-last-used"), datetime.fromtimestamp(self._now(), UTC)
        days = [(today + timedelta(days=offset)).strftime("%Y-%m-%d") for offset in (0, 1)]
        if _labels(secret).get(label) in days:
            return

        def decide(current: Record | None) -> Outcome:
            found: Object | None = None if current is None else objects.decode(current.data)
            if found is None or found["metadata"]["uid"] != secret["metadata"]["uid"]:
                return Keep()
            found["metadata"]["labels"] = {**_labels(found), label: days[0]}
            return Put(objects.encode_for_store(found))

        try:
            await self._store.update(_SECRETS, objects.key_of(namespace, secret["metadata"]["name"]), decide)
        except StoreUnavailable as error:
            _log.error("Failed to record last use of service account token", extra={"err": error})

    def _claim(self, claims: dict[str, Any], name: str) -> str:
        value = claims.get(self._identity.label(f"serviceaccount/{name}"))
        if not isinstance(value, str) or not value:
            raise Rejected(f"{name} claim is missing")
        return value

    def _find(self, collection: str, namespace: str, name: str) -> Object | None:
        record = self._store.collection(collection).get(objects.key_of(namespace, name))
        return None if record is None else objects.decode(record.data)


def _content(secret: Object) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get("token") or "")
    except (binascii.Error, ValueError):
        return b""


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
