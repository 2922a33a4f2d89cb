"""Who may: authorizers are asked in order; the first that allows or denies decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User

Decision = Literal["allow", "deny", "no-opinion"]

MODES = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
"""Values of ``--authorization-mode``."""
SUPERUSERS = "system:masters"
"""Members of this group may always do everything."""


class AuthorizationResult(NamedTuple):
    """What authorizers say about one request."""

    decision: Decision
    reason: str = ""
    """Read by a caller who is refused, and by whoever reads the audit trail."""
    error: str = ""
    """What kept an authorizer from an opinion."""

    @property
    def allowed(self) -> bool:
        return self.decision == "allow"


ALLOW = AuthorizationResult("allow")
NO_OPINION = AuthorizationResult("no-opinion")


@dataclass(slots=True)
class Rules:
    """What a user may in one namespace and outside of any, as far as it can be listed."""

    resources: list[Object] = field(default_factory=list)
    paths: list[Object] = field(default_factory=list)
    incomplete: bool = False
    errors: list[str] = field(default_factory=list)


class Authorizer(Protocol):
    """Decides about requests, or has no opinion."""

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        """Return the decision; what keeps it from one is told in the verdict and never raised."""
        ...

    def rules(self, user: User, namespace: str) -> Rules:
        """Return what *user* may in *namespace*."""
        ...


class Chain:
    """Asks *authorizers* in order; :data:`SUPERUSERS` are not asked about."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = authorizers

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        """Return the first decision; without one, what all of them say."""
        if SUPERUSERS in user.groups:
            return ALLOW
        reasons, errors = [], []
        for authorizer in self._authorizers:
            verdict = await authorizer.authorize(user, info)
            if verdict.decision != "no-opinion":
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
            if verdict.error:
                errors.append(verdict.error)
        return (
            AuthorizationResult("no-opinion", "\n".join(reasons), aggregate(errors))
            if reasons or errors
            else NO_OPINION
        )

    def rules(self, user: User, namespace: str) -> Rules:
        """Return the rules of all authorizers; like upstream, none for being one of :data:`SUPERUSERS`."""
        found = Rules()
        for authorizer in self._authorizers:
            rules = authorizer.rules(user, namespace)
            found.resources += rules.resources
            found.paths += rules.paths
            found.incomplete |= rules.incomplete
            found.errors += rules.errors
        return found


class AlwaysAllow:
    """Allows everything (spec: opt.authorization-mode)."""

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        return ALLOW

    def rules(self, user: User, namespace: str) -> Rules:
        return _everything(Rules())


class AlwaysDeny:
    """Refuses everything (spec: opt.authorization-mode)."""

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        return AuthorizationResult("no-opinion", "Everything is forbidden.")

    def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


def aggregate(errors: Sequence[str]) -> str:
    """Return several errors as one text: different ones in brackets, a single one as it is."""
    different = list(dict.fromkeys(errors))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]" if different else ""


def _everything(rules: Rules) -> Rules:
    rules.resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
    rules.paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    return rules
