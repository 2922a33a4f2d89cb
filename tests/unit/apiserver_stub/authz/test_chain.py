"""Tests for the authorizer chain: the first decision applies."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authz import ALLOW, AlwaysAllow, AlwaysDeny, AuthorizationResult, Chain, Rules

INFO = RequestInfo("list", "", "", "v1", "nodes")


class Says:
    """Authorizer with a fixed decision."""

    def __init__(self, *verdict: str) -> None:
        self._verdict, self.asked = AuthorizationResult(*verdict), 0  # type: ignore[arg-type]

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.asked += 1
        return self._verdict

    def rules(self, user: User, namespace: str) -> Rules:
        return Rules([{"verbs": [self._verdict.decision]}], incomplete=True, errors=["sorry"])


@pytest.mark.row("opt.authorization-mode")
async def test_first_decision_applies_and_later_authorizers_are_not_called() -> None:
    later = Says("allow", "late")

    assert await Chain([Says("no-opinion", "a"), Says("allow", "b"), later]).authorize(ANONYMOUS, INFO) == (
        "allow",
        "b",
        "",
    )
    assert await Chain([Says("no-opinion", "a"), Says("deny", "b"), later]).authorize(ANONYMOUS, INFO) == (
        "deny",
        "b",
        "",
    )
    assert later.asked == 0


async def test_no_opinion_reports_all_reasons() -> None:
    chain = Chain([Says("no-opinion", "a"), AlwaysDeny(), Says("no-opinion", "", "broken")])

    verdict = await chain.authorize(ANONYMOUS, INFO)

    assert verdict == ("no-opinion", "a\nEverything is forbidden.", "broken")
    assert not verdict.allowed


async def test_later_authorizer_decides_after_no_opinion() -> None:
    assert (await Chain([Says("no-opinion", "", "broken"), AlwaysAllow()]).authorize(ANONYMOUS, INFO)).allowed


async def test_system_masters_are_always_authorized() -> None:
    assert await Chain([Says("deny")]).authorize(User("a", groups=("system:masters",)), INFO) == ALLOW


def test_rules_of_all_authorizers_are_merged() -> None:
    rules = Chain([Says("allow"), AlwaysDeny(), AlwaysAllow()]).rules(ANONYMOUS, "default")

    assert [item["verbs"] for item in rules.resources] == [["allow"], ["*"]]
    assert rules.incomplete
    assert rules.errors == ["sorry"]
    assert Chain([]).rules(User("a", groups=("system:masters",)), "default").resources == []
