"""Tests for CEL expressions: compilation errors, and evaluation within a budget."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import BOOL, CelError
from apiserver_stub.cel.budget import CallLimitExceeded
from apiserver_stub.cel.config_expression import ConfigExpression

CLAIMS = ("claims",)


def test_results_are_plain_data() -> None:
    data = {"claims": {"a": "x,y", "n": 2, "l": ["a"], "t": True}}

    for text, expected in (
        ("claims.a.split(',')", ["x", "y"]),
        ("claims.n + 1 == 3", True),
        ("claims.?none.orValue('d')", "d"),
        ("claims.l.map(x, x + '!')", ["a!"]),
        ("has(claims.t) && claims.t", True),
    ):
        assert ConfigExpression(text, CLAIMS).evaluate(data) == expected


@pytest.mark.parametrize("text", ["claims.", "other.x", "1 + 'a'", ""])
def test_invalid_expression_is_rejected(text: str) -> None:
    with pytest.raises(CelError, match="compilation failed"):
        ConfigExpression(text, CLAIMS)


def test_condition_that_is_not_boolean_is_rejected() -> None:
    ConfigExpression("claims.x == 1", CLAIMS, BOOL)
    with pytest.raises(CelError, match="must evaluate to bool"):
        ConfigExpression("claims.x", CLAIMS, BOOL)


def test_evaluation_fails_in_order_and_in_time() -> None:
    with pytest.raises(CelError, match="no such key: x"):
        ConfigExpression("claims.x", CLAIMS).evaluate({"claims": {}})
    with pytest.raises(CallLimitExceeded):
        ConfigExpression("claims.l.map(a, claims.l.map(b, claims.l.map(c, a)))", CLAIMS).evaluate(
            {"claims": {"l": [1] * 999}}
        )


def test_functions_of_kubernetes_are_available_and_charged() -> None:
    text = "claims.l.map(x, x.find('[a-z]+')).isSorted() && url(claims.u).getHost() == 'id.example'"
    data = {"claims": {"l": ["a1", "b2"], "u": "https://id.example/x"}}
    assert ConfigExpression(text, CLAIMS, BOOL).evaluate(data) is True

    with pytest.raises(CallLimitExceeded):
        ConfigExpression("claims.l.all(a, claims.l.all(b, a.matches(b)))", CLAIMS, BOOL).evaluate(
            {"claims": {"l": ["a" * 400] * 90}}
        )
