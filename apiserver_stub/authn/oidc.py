"""OpenID Connect authentication: signature, audience and claims of ID tokens, and the users that they identify.

The reason of a rejection is only logged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn import jwt
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.jwt_config import JwtConfig, Mapped, Rule
from apiserver_stub.authn.key_set import Fetcher, IssuerError, KeySet
from apiserver_stub.cel import CelError
from nodeagent.base.aio import Clock, SystemClock, TaskOwner

_NOT_BEFORE_LEEWAY_SECONDS = 300
_MAX_PROVIDERS = 16


class OidcTokens:
    """Authenticator for ID tokens of the issuer in *config*."""

    def __init__(
        self,
        config: JwtConfig,
        fetcher: Fetcher,
        tasks: TaskOwner,
        *,
        clock: Clock | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._fetcher, self._tasks, self._now = config, fetcher, tasks, now
        self._clock = clock or SystemClock()
        self.keys = KeySet(config.issuer, fetcher, tasks, self._clock, config.discovery_url)
        self._others: dict[str, KeySet] = {}

    @property
    def issuer(self) -> str:
        """URL of the issuer."""
        return self._config.issuer

    def start(self) -> None:
        """Start discovery; the provider may become available after this server."""
        self._tasks.start(self.keys.discover(), "oidc-discovery")

    async def user_of(self, token: str) -> User | None:
        """Return the user of *token*, ``None`` if another issuer issued it.

        :raises Rejected: the token is invalid, or the provider is unavailable.
        """
        try:
            parsed = jwt.parse(token)
        except jwt.TokenError:
            return None
        if parsed.claims.get("iss") != self._config.issuer:
            return None
        if not self.keys.ready:
            raise Rejected("oidc: authenticator not initialized")
        try:
            self._check(parsed)
            await self.keys.verify(parsed, self._config.algorithms)
            await self._expand(parsed.claims)
            return self._user(parsed.claims)
        except (jwt.TokenError, IssuerError) as error:
            raise Rejected(f"oidc: verify token: {error}") from None
        except CelError as error:
            raise Rejected(f"oidc: error evaluating expression: {error}") from None

    def _check(self, token: jwt.Token) -> None:
        claims, now = token.claims, self._now()
        named = claims.get("aud")
        audiences = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        if not set(self._config.audiences).intersection(str(audience) for audience in audiences):
            accepted = self._config.audiences
            expected = f'audience "{accepted[0]}"' if len(accepted) == 1 else f"one of the audiences {list(accepted)}"
            got = " ".join(f'"{audience}"' for audience in audiences)
            raise jwt.TokenError(f"oidc: expected {expected} got [{got}]")
        expires, not_before = claims.get("exp"), claims.get("nbf")
        if not isinstance(expires, int | float) or now > expires:
            raise jwt.TokenError("oidc: token is expired")
        if isinstance(not_before, int | float) and now + _NOT_BEFORE_LEEWAY_SECONDS < not_before:
            raise jwt.TokenError("oidc: token is not valid yet")
        if token.header.get("alg") not in self._config.algorithms:
            raise jwt.TokenError(f"oidc: id token signed with unsupported algorithm {token.header.get('alg')!r}")

    def _user(self, claims: dict[str, Any]) -> User:
        config, data = self._config, {"claims": claims}
        user = User(
            self._username(claims),
            self._uid(claims),
            tuple(self._groups(claims)),
            {key: values for key, expression in config.extra if (values := tuple(_texts(expression.evaluate(data))))},
        )
        for claim, required in config.required:
            if claim not in claims:
                raise Rejected(f"oidc: required claim {claim} not present in ID token")
            if (value := _text(claims, claim)) != required:
                problem = f"value does not match. Got = {value}, want = {required}"  # wording: ok
                raise Rejected(f"oidc: required claim {claim} {problem}")
        _require(config.claim_rules, data)
        if config.user_rules:
            extra = {key: list(values) for key, values in user.extra.items()}
            attributes = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
            _require(config.user_rules, {"user": attributes})
        return user

    def _username(self, claims: dict[str, Any]) -> str:
        mapped = self._config.username
        if mapped.expression is not None:
            return _evaluated_text(mapped, claims, "username")
        if mapped.claim not in claims:
            raise Rejected(f'oidc: parse username claims "{mapped.claim}": claim not present')
        name = _text(claims, mapped.claim)
        if mapped.claim == "email" and "email_verified" in claims and claims["email_verified"] is not True:
            raise Rejected("oidc: email not verified")
        return mapped.prefix + name

    def _groups(self, claims: dict[str, Any]) -> list[str]:
        mapped = self._config.groups
        if mapped.expression is not None:
            return _texts(mapped.expression.evaluate({"claims": claims}))
        if not mapped.claim or mapped.claim not in claims:
            return []
        value = claims[mapped.claim]
        groups = [value] if isinstance(value, str) else value
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise Rejected(f'oidc: parse groups claim "{mapped.claim}": expected a string or a list of strings')
        return [mapped.prefix + group for group in groups]

    def _uid(self, claims: dict[str, Any]) -> str:
        mapped = self._config.uid
        if mapped.expression is not None:
            return _evaluated_text(mapped, claims, "uid")
        if not mapped.claim:
            return ""
        if mapped.claim not in claims:
            raise Rejected(f'oidc: parse uid claim "{mapped.claim}": claim not present')
        return _text(claims, mapped.claim)

    async def _expand(self, claims: dict[str, Any]) -> None:
        """Fetch the groups claim of a token that contains only a reference to it (distributed claims).

        :raises TokenError: the fetched token is invalid.
        :raises IssuerError: it cannot be fetched.
        """
        claim = self._config.groups.claim
        if not claim or claim in claims:
            return
        names, sources = claims.get("_claim_names"), claims.get("_claim_sources")
        source = names.get(claim) if isinstance(names, dict) else None
        reference = sources.get(source) if isinstance(sources, dict) and isinstance(source, str) else None
        if not isinstance(reference, dict) or not isinstance(reference.get("endpoint"), str):
            return
        bearer = reference.get("access_token")
        data = await self._fetcher.fetch(reference["endpoint"], bearer if isinstance(bearer, str) else "")
        fetched = jwt.parse(data.decode(errors="replace").strip())
        self._check(fetched)
        await (await self._keys_of(str(fetched.claims.get("iss") or ""))).verify(fetched, self._config.algorithms)
        if claim not in fetched.claims:
            raise jwt.TokenError(f"jwt returned by distributed claim endpoint does not contain claim {claim!r}")
        claims[claim] = fetched.claims[claim]

    async def _keys_of(self, issuer: str) -> KeySet:
        if issuer == self._config.issuer:
            return self.keys
        keys = self._others.get(issuer)
        if keys is None:
            keys = KeySet(issuer, self._fetcher, self._tasks, self._clock)
            await keys.discover_once()
            if len(self._others) >= _MAX_PROVIDERS:
                del self._others[next(iter(self._others))]
            self._others[issuer] = keys
        return keys


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims[name]
    if not isinstance(value, str):
        raise Rejected(f'oidc: parse claim "{name}": expected a string')
    return value


def _evaluated_text(mapped: Mapped, claims: dict[str, Any], what: str) -> str:
    value = mapped.expression.evaluate({"claims": claims}) if mapped.expression is not None else ""
    if not isinstance(value, str):
        raise Rejected(f"oidc: error evaluating {what} claim expression: it must return a string")
    return value


def _texts(value: Any) -> list[str]:
    texts = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Rejected("oidc: expression must return a string or a list of strings")
    return [text for text in texts if text]


def _require(rules: tuple[Rule, ...], data: dict[str, Any]) -> None:
    for rule in rules:
        if rule.expression.evaluate(data) is not True:
            raise Rejected(f"oidc: validation expression '{rule.expression.text}' failed: {rule.message}")
