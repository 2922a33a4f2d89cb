"""Who may: authorizers are asked in order; the first that allows or denies decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from apiserver_stub.request import RequestInfo, User

Decision = Literal["allow", "deny", "no-opinion"]


class Authorizer(Protocol):
    """Decides about requests, or has no opinion."""

    def authorize(self, user: User, info: RequestInfo) -> tuple[Decision, str]:
        """Return the decision and the reason that a refused caller reads."""
        ...


class Chain:
    """Asks *authorizers* in order; members of ``system:masters`` may always do everything."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = authorizers

    def authorize(self, user: User, info: RequestInfo) -> tuple[bool, str]:
        """Return whether *user* may, and if not, why."""
        if "system:masters" in user.groups:
            return True, ""
        reasons = []
        for authorizer in self._authorizers:
            decision, reason = authorizer.authorize(user, info)
            if decision == "allow":
                return True, reason
            if reason:
                reasons.append(reason)
            if decision == "deny":
                break
        return False, "\n".join(reasons)


class AlwaysAllow:
    """Allows everything (spec: opt.authorization-mode)."""

    def authorize(self, user: User, info: RequestInfo) -> tuple[Decision, str]:
        return "allow", ""


class AlwaysDeny:
    """Refuses everything (spec: opt.authorization-mode)."""

    def authorize(self, user: User, info: RequestInfo) -> tuple[Decision, str]:
        return "no-opinion", "Everything is forbidden."
