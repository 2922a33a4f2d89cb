"""Service account tokens: issued for a service account, optionally bound to an object, valid while both exist."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn import jwt
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected
from apiserver_stub.authn.token_keys import TokenKeys
from apiserver_stub.storage import Store
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from nodeagent.base.gates import FeatureGates

LEEWAY_SECONDS = 60
EXTENDED_SECONDS = 365 * 24 * 3600
EXTENDABLE_SECONDS = 3607
"""Lifetime that kubelets request for the token volume of a pod; other clients do not request this value."""
_BOUND = {"pod": "core/pods", "secret": "core/secrets"}
_INVALIDATED = "service account token has been invalidated"


class Issued(Struct, frozen=True):
    """A new token, with its lifetime in seconds, its expiration (seconds since the epoch), and warnings."""

    token: str
    seconds: int
    expires_at: float
    warnings: tuple[str, ...] = ()


class ServiceAccountTokens:
    """Issuer of tokens as the first of *issuers*, and authenticator for the tokens of all of them.

    spec: opt.service-account-issuer, opt.service-account-key-file, opt.service-account-signing-key-file,
    opt.service-account-max-token-expiration, opt.service-account-extend-token-expiration, opt.api-audiences
    """

    def __init__(
        self,
        store: Store,
        keys: TokenKeys,
        issuers: Sequence[str],
        identity: Identity,
        *,
        gates: FeatureGates,
        api_audiences: Sequence[str] = (),
        max_seconds: int = 0,
        extend: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Create the issuer.

        :param api_audiences: audiences of the API; by default the issuers.
        :param max_seconds: maximum lifetime; 0 for unlimited.
        """
        self._store, self.keys, self._issuers, self._now = store, keys, tuple(issuers), now
        self.api_audiences = tuple(api_audiences) or self._issuers
        self._max_seconds, self._extend = max_seconds, extend
        self.gates = gates
        self._claim, self._stale = identity.label_domain, identity.group("authentication") + "/stale-token"
        self._extra_prefix = identity.label("", "authentication")
        self.valid_tokens, self.stale_tokens = 0, 0
        """Number of authentications with tokens of extended lifetime, before and after their renewal time."""

    @property
    def issuer(self) -> str:
        """Issuer of new tokens."""
        return self._issuers[0]

    async def issue(
        self, account: Object, audiences: Sequence[str], seconds: int, bound: tuple[str, Object] | None
    ) -> Issued:
        """Return a token for *account* with a lifetime of *seconds*, bound to *bound* (kind and object), if any.

        :raises SigningError: the token cannot be signed.
        """
        metadata, now = account["metadata"], int(self._now())
        warnings: tuple[str, ...] = ()
        if self._max_seconds and seconds > self._max_seconds:
            text = f"requested expiration of {seconds} seconds shortened to {self._max_seconds} seconds"
            warnings, seconds = (text,), self._max_seconds
        lifetime, warn_after = seconds, 0
        in_pod = bound is not None and bound[0] == "Pod"
        if in_pod and self._extend and seconds == EXTENDABLE_SECONDS and set(audiences) <= set(self.api_audiences):
            lifetime, warn_after = min(EXTENDED_SECONDS, self.keys.max_token_seconds or EXTENDED_SECONDS), now + seconds
        about: dict[str, Any] = {"namespace": metadata["namespace"]}
        if bound is not None:
            kind, obj = bound
            about[kind.lower()] = _reference(obj)
            node = (obj.get("spec") or {}).get("nodeName") if in_pod else None
            if node and self.gates.enabled("ServiceAccountTokenPodNodeInfo"):
                found = self._find("core/nodes", "", node)
                about["node"] = _reference(found) if found else {"name": node}
        about["serviceaccount"] = _reference(account)
        if warn_after:
            about["warnafter"] = warn_after
        claims = {
            "aud": list(audiences),
            "exp": now + lifetime,
            "iat": now,
            "iss": self.issuer,
            self._claim: about,
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        if self.gates.enabled("ServiceAccountTokenJTI"):
            claims["jti"] = objects.new_uid()
        return Issued(await self.keys.sign(claims), seconds, float(now + seconds), warnings)

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return the user of *token*, ``None`` if another issuer issued it.

        :raises Rejected: no key signed it, it has expired, it is for other audiences, or its object was deleted.
        """
        try:
            parsed = jwt.parse(token)
        except jwt.TokenError:
            return None
        claims = parsed.claims
        if claims.get("iss") not in self._issuers:
            return None
        try:
            parsed.verify(await self.keys.verifying(parsed.key_id))
        except jwt.TokenError as error:
            raise Rejected(str(error)) from None
        valid_for = _audiences(claims, audiences, self.api_audiences)
        self._check_times(claims)
        return AuthenticatedUser(self._account_of(claims), valid_for, self._staleness(claims))

    def _staleness(self, claims: dict[str, Any]) -> dict[str, str]:
        """Return the audit annotations of a token after its renewal time, and count its use."""
        warn_after = _number(_member(claims, self._claim), "warnafter")
        if not warn_after:
            return {}
        late = int(self._now()) - int(warn_after)
        if self._now() <= warn_after:
            self.valid_tokens += 1
            return {}
        self.stale_tokens += 1
        return {self._stale: f"subject: {claims.get('sub')}, seconds after warning threshold: {late}"}

    def _check_times(self, claims: dict[str, Any]) -> None:
        now = self._now()
        if now > _number(claims, "exp") + LEEWAY_SECONDS:
            raise Rejected("service account token has expired")
        if now < _number(claims, "nbf") - LEEWAY_SECONDS:
            raise Rejected("service account token is not valid yet")
        if now < _number(claims, "iat") - LEEWAY_SECONDS:
            raise Rejected("service account token is issued in the future")

    def _account_of(self, claims: dict[str, Any]) -> User:
        about = _member(claims, self._claim)
        namespace, account = str(about.get("namespace") or ""), _member(about, "serviceaccount")
        name, uid = str(account.get("name") or ""), account.get("uid")
        found = self._find("core/serviceaccounts", namespace, name)
        if found is None:
            raise Rejected(f'serviceaccounts "{name}" not found')
        if found["metadata"]["uid"] != uid:
            raise Rejected(f"service account UID ({found['metadata']['uid']}) does not match claim ({uid})")
        if self._is_deleted(found):
            raise Rejected(f"service account {namespace}/{name} has been deleted")
        for kind, collection in _BOUND.items():
            if about.get(kind) is not None:
                self._check_bound(kind, self._find(collection, namespace, _name_of(about, kind)), about)
        extra = {}
        if pod := _member(about, "pod"):
            extra["pod-name"], extra["pod-uid"] = (str(pod["name"]),), (str(pod["uid"]),)
        if (node := _member(about, "node")) and self._check_node(node, about):
            extra["node-name"] = (str(node["name"]),)
            if node.get("uid"):
                extra["node-uid"] = (str(node["uid"]),)
        if claims.get("jti") and self.gates.enabled("ServiceAccountTokenJTI"):
            extra["credential-id"] = (f"JTI={claims['jti']}",)
        prefixed: dict[str, tuple[str, ...]] = {self._extra_prefix + key: value for key, value in extra.items()}
        return account_user(namespace, name, str(uid), prefixed)

    def _check_node(self, node: dict[str, Any], about: dict[str, Any]) -> bool:
        """Return whether the user gets the node of the token; a token bound to a node requires that the node exists."""
        if "pod" in about:
            return self.gates.enabled("ServiceAccountTokenPodNodeInfo")
        gate = "ServiceAccountTokenNodeBindingValidation"
        if not self.gates.enabled(gate):
            raise Rejected(f"token is bound to a Node object but the {gate} feature gate is disabled")
        self._check_bound("node", self._find("core/nodes", "", _name_of(about, "node")), about)
        return True

    def _check_bound(self, kind: str, found: Object | None, about: dict[str, Any]) -> None:
        if found is None or self._is_deleted(found):
            raise Rejected(_INVALIDATED)
        uid, claimed = found["metadata"]["uid"], _member(about, kind).get("uid")
        if uid != claimed:
            raise Rejected(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})")

    def _is_deleted(self, obj: Object) -> bool:
        deleted_at = objects.parse_time(obj["metadata"].get("deletionTimestamp"))
        return deleted_at is not None and deleted_at < datetime.fromtimestamp(self._now() - LEEWAY_SECONDS, UTC)

    def _find(self, collection: str, namespace: str, name: str) -> Object | None:
        record = self._store.collection(collection).get(objects.key_of(namespace, name))
        return None if record is None else objects.decode(record.data)


def account_user(namespace: str, name: str, uid: str, extra: dict[str, tuple[str, ...]] | None = None) -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", uid, groups, extra or {})


def split_account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account with the user name *name*, ``None`` for other users."""
    parts = name.split(":")
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"] or not parts[2] or not parts[3]:
        return None
    return parts[2], parts[3]


def _audiences(claims: dict[str, Any], accepted: Sequence[str], implicit: Sequence[str]) -> tuple[str, ...]:
    claimed = claims.get("aud")
    intended = [claimed] if isinstance(claimed, str) else claimed if isinstance(claimed, list) else []
    valid_for = tuple(audience for audience in intended or implicit if audience in accepted)
    if not valid_for:
        quoted = [" ".join(f'"{name}"' for name in names) for names in (intended, accepted)]
        raise Rejected(f"token audiences [{quoted[0]}] is invalid for the target audiences [{quoted[1]}]")
    return valid_for


def _reference(obj: Object) -> dict[str, str]:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _member(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _name_of(about: dict[str, Any], kind: str) -> str:
    return str(_member(about, kind).get("name") or "")


def _number(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
