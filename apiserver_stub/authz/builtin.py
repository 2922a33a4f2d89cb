"""The default without options: nodes join and do what nodes do, everyone may look at health, version and discovery."""

from __future__ import annotations

from functools import lru_cache

from apiserver_stub.authz import ALLOW, NO_OPINION, Rules, Verdict
from apiserver_stub.authz.rules import EVERYTHING, Rule
from apiserver_stub.request import RequestInfo, User
from nodeagent.base import identity

_GET = ("get",)
_CREATE = ("create",)
_CERTIFICATES = identity.current().group("certificates")
_RULES: dict[str, tuple[Rule, ...]] = {
    "system:nodes": EVERYTHING,
    "system:authenticated": (
        Rule(_CREATE, (identity.current().group("authentication"),), ("selfsubjectreviews",)),
        Rule(
            _CREATE,
            (identity.current().group("authorization"),),
            ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        ),
        Rule(
            _GET,
            paths=tuple(
                path + more
                for path in ("/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version")
                for more in ("", "/*")
            ),
        ),
    ),
    "system:bootstrappers": (
        Rule(("create", "get", "list", "watch"), (_CERTIFICATES,), ("certificatesigningrequests",)),
        Rule(_CREATE, (_CERTIFICATES,), ("certificatesigningrequests/nodeclient",)),
    ),
    "system:serviceaccounts": (Rule(_GET, paths=("/.well-known/openid-configuration", "/openid/v1/jwks")),),
}
_EVERYONE = (Rule(_GET, paths=("/healthz", "/livez", "/readyz", "/version", "/version/")),)


class Builtin:
    """Allows group ``system:nodes`` everything and others what harms nobody."""

    async def authorize(self, user: User, info: RequestInfo) -> Verdict:
        return ALLOW if any(rule.allows(info) for rule in _rules_of(user.groups)) else NO_OPINION

    def rules(self, user: User, namespace: str) -> Rules:
        found = Rules()
        for rule in _rules_of(user.groups):
            (found.paths if rule.paths else found.resources).append(rule.write())
        return found


@lru_cache(maxsize=4096)
def _rules_of(groups: tuple[str, ...]) -> tuple[Rule, ...]:
    return (*(rule for group in groups for rule in _RULES.get(group, ())), *_EVERYONE)
