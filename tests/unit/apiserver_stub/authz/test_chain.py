"""Authorizers are asked in order until one allows or denies."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authz import ALLOW, AlwaysAllow, AlwaysDeny, AuthorizationResult, Chain, Rules

INFO = RequestInfo("list", "", "", "v1", "nodes")


class Says:
    """An authorizer with one answer."""

    def __init__(self, *verdict: str) -> None:
        self._verdict, self.asked = AuthorizationResult(*verdict), 0  # type: ignore[arg-type]

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.asked += 1
        return self._verdict

    def rules(self, user: User, namespace: str) -> Rules:
        return Rules([{"verbs": [self._verdict.decision]}], incomplete=True, errors=["sorry"])


@pytest.mark.row("opt.authorization-mode")
async def test_the_first_decision_counts_and_later_ones_are_not_asked() -> None:
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


async def test_without_a_decision_all_reasons_are_told() -> None:
    chain = Chain([Says("no-opinion", "a"), AlwaysDeny(), Says("no-opinion", "", "broken")])

    verdict = await chain.authorize(ANONYMOUS, INFO)

    assert verdict == ("no-opinion", "a\nEverything is forbidden.", "broken")
    assert not verdict.allowed


async def test_what_one_could_not_decide_another_may() -> None:
    assert (await Chain([Says("no-opinion", "", "broken"), AlwaysAllow()]).authorize(ANONYMOUS, INFO)).allowed


async def test_superusers_may_whatever_the_authorizers_say() -> None:
    assert await Chain([Says("deny")]).authorize(User("a", groups=("system:masters",)), INFO) == ALLOW


def test_rules_of_all_are_listed_together() -> None:
    rules = Chain([Says("allow"), AlwaysDeny(), AlwaysAllow()]).rules(ANONYMOUS, "default")

    assert [item["verbs"] for item in rules.resources] == [["allow"], ["*"]]
    assert rules.incomplete
    assert rules.errors == ["sorry"]
    assert Chain([]).rules(User("a", groups=("system:masters",)), "default").resources == []
