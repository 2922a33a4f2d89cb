"""Tests for CEL expressions: compilation errors, and evaluation within a budget."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import BOOL, CelError, Expression

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
        assert Expression(text, CLAIMS).evaluate(data) == expected


@pytest.mark.parametrize("text", ["claims.", "other.x", "1 + 'a'", ""])
def test_invalid_expression_is_rejected(text: str) -> None:
    with pytest.raises(CelError, match="compilation failed"):
        Expression(text, CLAIMS)


def test_condition_that_is_not_boolean_is_rejected() -> None:
    Expression("claims.x == 1", CLAIMS, BOOL)
    with pytest.raises(CelError, match="must evaluate to bool"):
        Expression("claims.x", CLAIMS, BOOL)


def test_evaluation_fails_in_order_and_in_time() -> None:
    with pytest.raises(CelError, match="no such key: x"):
        Expression("claims.x", CLAIMS).evaluate({"claims": {}})
    with pytest.raises(CelError, match="budget"):
        Expression("claims.l.map(a, claims.l.map(b, claims.l.map(c, a)))", CLAIMS).evaluate(
            {"claims": {"l": [1] * 999}}
        )
