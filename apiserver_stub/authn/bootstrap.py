"""Bootstrap token authentication, for joining nodes (spec: opt.enable-bootstrap-token-auth)."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import User
from apiserver_stub.storage import Store
from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_EVERY_GROUP = "system:bootstrappers"


class BootstrapTokens:
    """Authenticator for the tokens in secrets of the system namespace; only the log has the reason of a rejection."""

    def __init__(self, store: Store, identity: Identity, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._identity, self._now = store, identity, now

    async def user_of(self, token: str) -> User | None:
        """Return the user of *token*, ``None`` if it is not a valid bootstrap token."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        token_id, token_secret = match.groups()
        name = f"bootstrap-token-{token_id}"
        record = self._store.collection("core/secrets").get(objects.key_of(self._identity.system_namespace, name))
        if record is None:
            _log.info("Bootstrap token rejected", extra={"secret": name, "err": "no such secret"})
            return None
        secret: Object = objects.decode(record.data)
        data = _decoded(secret)
        groups = [group.strip() for group in data.get("auth-extra-groups", "").split(",") if group.strip()]
        problem = self._problem(secret, data, token_id, token_secret, groups)
        if problem:
            _log.info("Bootstrap token rejected", extra={"secret": name, "err": problem})
            return None
        return User(f"system:bootstrap:{token_id}", groups=(_EVERY_GROUP, *sorted(set(groups))))

    def _problem(
        self, secret: Object, data: dict[str, str], token_id: str, token_secret: str, groups: list[str]
    ) -> str:
        if secret["metadata"].get("deletionTimestamp"):
            return "it is being deleted"
        if secret.get("type") != self._identity.label("token", "bootstrap"):
            return "the secret has another type"
        if not hmac.compare_digest(data.get("token-secret", "").encode(), token_secret.encode()):
            return "the secret part differs"
        if data.get("token-id") != token_id:
            return "token-id differs from the name of the secret"
        if "expiration" in data:
            expiration = objects.parse_time(data["expiration"])
            if expiration is None or expiration <= datetime.fromtimestamp(self._now(), UTC):
                return "it has expired"
        if data.get("usage-bootstrap-authentication") != "true":
            return "it is not meant for authentication"
        if wrong := next((group for group in groups if not _GROUP.fullmatch(group)), None):
            return f"group {wrong!r} is not one that such tokens may have"
        return ""


def _decoded(secret: Object) -> dict[str, str]:
    result = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            result[key] = base64.b64decode(value).decode()
        except (binascii.Error, ValueError):
            continue
    return result
