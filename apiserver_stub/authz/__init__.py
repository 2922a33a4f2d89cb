"""Authorization: authorizers are called in order; the first that allows or denies decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from nodeagent.base.structs import MutableStruct

Decision = Literal["allow", "deny", "no-opinion"]

MODES = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
"""Values of ``--authorization-mode``."""
SUPERUSERS = "system:masters"
"""Group whose members are always authorized."""


class AuthorizationResult(NamedTuple):
    """The decision of an authorizer or of the chain for a request."""

    decision: Decision
    reason: str = ""
    """Returned to a client that is denied, and recorded in the audit log."""
    error: str = ""
    """The error that prevented a decision; empty without one."""

    @property
    def allowed(self) -> bool:
        return self.decision == "allow"


ALLOW = AuthorizationResult("allow")
NO_OPINION = AuthorizationResult("no-opinion")


class Rules(MutableStruct):
    """Rules of a user in a namespace and for non-resource paths; *incomplete* if some cannot be listed."""

    resources: list[Object] = field(default_factory=list)
    paths: list[Object] = field(default_factory=list)
    incomplete: bool = False
    errors: list[str] = field(default_factory=list)


class Authorizer(Protocol):
    """Protocol of authorizers, which allow, deny or have no opinion."""

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        """Return the decision; errors are reported in the result, never raised."""
        ...

    def rules(self, user: User, namespace: str) -> Rules:
        """Return the rules of *user* in *namespace*."""
        ...


class Chain:
    """Union of *authorizers*, called in order; members of :data:`SUPERUSERS` are always allowed."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = authorizers

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        """Return the first decision; without one, the reasons and errors of all authorizers."""
        if SUPERUSERS in user.groups:
            return ALLOW
        reasons, errors = [], []
        for authorizer in self._authorizers:
            result = await authorizer.authorize(user, info)
            if result.decision != "no-opinion":
                return result
            if result.reason:
                reasons.append(result.reason)
            if result.error:
                errors.append(result.error)
        return (
            AuthorizationResult("no-opinion", "\n".join(reasons), aggregate(errors))
            if reasons or errors
            else NO_OPINION
        )

    def rules(self, user: User, namespace: str) -> Rules:
        """Return the rules of all authorizers; as upstream, without a rule for :data:`SUPERUSERS`."""
        found = Rules()
        for authorizer in self._authorizers:
            rules = authorizer.rules(user, namespace)
            found.resources += rules.resources
            found.paths += rules.paths
            found.incomplete |= rules.incomplete
            found.errors += rules.errors
        return found


class AlwaysAllow:
    """Authorizer that allows every request (spec: opt.authorization-mode)."""

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        return ALLOW

    def rules(self, user: User, namespace: str) -> Rules:
        return _everything(Rules())


class AlwaysDeny:
    """Authorizer that denies every request (spec: opt.authorization-mode)."""

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        return AuthorizationResult("no-opinion", "Everything is forbidden.")

    def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


def aggregate(errors: Sequence[str]) -> str:
    """Return the distinct *errors* as a text: several in brackets, a single one unchanged."""
    different = list(dict.fromkeys(errors))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]" if different else ""


def _everything(rules: Rules) -> Rules:
    rules.resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
    rules.paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    return rules
