"""Tests for the authorizer chain: the first decision applies."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authz import ALLOW, AlwaysAllow, AlwaysDeny, AuthorizationResult, Chain, Rules

INFO = RequestInfo("list", "", "", "v1", "nodes")


class FixedAuthorizer:
    """Authorizer with a fixed decision."""

    def __init__(self, *outcome: str) -> None:
        self._decision, self.calls = AuthorizationResult(*outcome), 0  # type: ignore[arg-type]

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.calls += 1
        return self._decision

    def rules(self, user: User, namespace: str) -> Rules:
        return Rules([{"verbs": [self._decision.decision]}], incomplete=True, errors=["sorry"])


@pytest.mark.row("opt.authorization-mode")
async def test_first_decision_applies_and_later_authorizers_are_not_called() -> None:
    later = FixedAuthorizer("allow", "late")

    assert await Chain([FixedAuthorizer("no-opinion", "a"), FixedAuthorizer("allow", "b"), later]).authorize(
        ANONYMOUS, INFO
    ) == (
        "allow",
        "b",
        "",
    )
    assert await Chain([FixedAuthorizer("no-opinion", "a"), FixedAuthorizer("deny", "b"), later]).authorize(
        ANONYMOUS, INFO
    ) == (
        "deny",
        "b",
        "",
    )
    assert later.calls == 0


async def test_no_opinion_reports_all_reasons() -> None:
    chain = Chain([FixedAuthorizer("no-opinion", "a"), AlwaysDeny(), FixedAuthorizer("no-opinion", "", "broken")])

    outcome = await chain.authorize(ANONYMOUS, INFO)

    assert outcome == ("no-opinion", "a\nEverything is forbidden.", "broken")
    assert not outcome.allowed


async def test_later_authorizer_decides_after_no_opinion() -> None:
    assert (
        await Chain([FixedAuthorizer("no-opinion", "", "broken"), AlwaysAllow()]).authorize(ANONYMOUS, INFO)
    ).allowed


async def test_system_masters_are_always_authorized() -> None:
    assert await Chain([FixedAuthorizer("deny")]).authorize(User("a", groups=("system:masters",)), INFO) == ALLOW


def test_rules_of_all_authorizers_are_merged() -> None:
    rules = Chain([FixedAuthorizer("allow"), AlwaysDeny(), AlwaysAllow()]).rules(ANONYMOUS, "default")

    assert [item["verbs"] for item in rules.resources] == [["allow"], ["*"]]
    assert rules.incomplete
    assert rules.errors == ["sorry"]
    assert Chain([]).rules(User("a", groups=("system:masters",)), "default").resources == []
