"""The default without any option: nodes may what nodes do, everyone may look at health, version and discovery."""

from __future__ import annotations

from apiserver_stub.authz import Decision
from apiserver_stub.request import RequestInfo, User

_PUBLIC = frozenset(["/healthz", "/livez", "/readyz", "/version", "/version/"])
_ISSUER = frozenset(["/.well-known/openid-configuration", "/openid/v1/jwks"])
_DISCOVERY = ("/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version")
_SELF = frozenset(["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"])


class Builtin:
    """Allows group ``system:nodes`` everything and others what harms nobody."""

    def authorize(self, user: User, info: RequestInfo) -> tuple[Decision, str]:
        if "system:nodes" in user.groups:
            return "allow", ""
        if not info.is_resource:
            if info.verb == "get" and info.path in _PUBLIC:
                return "allow", ""
            if info.verb == "get" and info.path in _ISSUER and "system:serviceaccounts" in user.groups:
                return "allow", ""
            known = info.verb == "get" and "system:authenticated" in user.groups
            if known and any(info.path == path or info.path.startswith(path + "/") for path in _DISCOVERY):
                return "allow", ""
        elif info.resource in _SELF and "system:authenticated" in user.groups:
            return "allow", ""
        return "no-opinion", ""
