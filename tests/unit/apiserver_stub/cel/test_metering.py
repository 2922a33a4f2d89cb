"""Tests for cost limits: what is charged for an evaluation, and evaluations that end at a limit."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import AdmissionExpression
from apiserver_stub.cel.budget import CALL_LIMIT, Budget, CallLimitExceeded, OutOfBudget

LIMIT = "operation cancelled: actual cost limit exceeded"


def cost(text: str, **data: Any) -> int:
    """Return the smallest budget that pays for *text*."""
    low, high = 0, 2 * CALL_LIMIT
    expression = AdmissionExpression(text)
    while low < high:
        middle = (low + high) // 2
        try:
            expression.evaluate(data, Budget(middle))
        except OutOfBudget:
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", 0),
        ("object == 1", 2),
        ("object.a.b", 3),
        ("object.a == 1 && object.b == 2", 6),
        ("object.b == 1 ? object.b : object.a.b + 1", 7),
        ("[1, 2, 3]", 10),
        ("{'a': object}", 31),
        ("object.s.upperAscii() == ''", 2 + 10 + 1),
        ("object.s.contains('abcdefghijk')", 2 + 10 * 2),
        ("object.s.matches('abcd')", 2 + 11),
        ("object.s.find('abcd') == ''", 2 + 11 + 1),
        ("sets.contains(object.l, object.l)", 6 + 50 * 50 + 1),
        ("object.l.all(x, x < 1)", 2 + 1 + 50 * 5),
        ("object.l.all(x, object.l.exists(y, y == 7 || x > 1))", 2 + 1 + 6 + 50 * 8),
        ("!object.l.exists(x, object.l.exists(y, y == 7 || x > 1))", 2 + 1 + 1 + 50 * 7 + 50 * 50 * 8),
    ],
)
def test_evaluation_is_charged_for_nodes_sizes_and_iterations(text: str, expected: int) -> None:
    data = {"a": {"b": 1}, "b": 2, "s": "x" * 100, "l": [0] * 50}
    found = cost(text, object=1 if text == "object == 1" else data)

    assert found == expected


def test_nested_loops_end_at_the_limit_although_errors_are_absorbed() -> None:
    loops = "object.all(x, object.all(y, object.all(z, x + y + z != 7)))"

    with pytest.raises(CallLimitExceeded, match=LIMIT):
        AdmissionExpression(loops).evaluate({"object": [1] * 90})
    with pytest.raises(CallLimitExceeded, match=LIMIT):
        AdmissionExpression(f"{loops} || true").evaluate({"object": [1] * 90})


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("sets.contains(object, object) || true", list(range(2000))),
        ("object.contains(object) || true", "a" * 300_000),
        ("object.matches(object) || true", "a" * 10_000),
        ("[1, 2, 3].all(x, authorizer.path('/a').check('get').allowed()) || true", None),
    ],
)
def test_expensive_function_is_not_called(text: str, data: Any) -> None:
    with pytest.raises(CallLimitExceeded, match=LIMIT):
        AdmissionExpression(text).evaluate({"object": data, "authorizer": {"account": ""}})


def test_evaluation_after_a_limit_starts_again() -> None:
    expression = AdmissionExpression("sets.contains(object, object)")
    with pytest.raises(CallLimitExceeded):
        expression.evaluate({"object": list(range(2000))})

    assert expression.evaluate({"object": [1]}) is True


def test_budget_pays_for_failed_evaluations_too() -> None:
    budget = Budget(5)
    with pytest.raises(CelError, match="no such key: b"):
        AdmissionExpression("object.a.b").evaluate({"object": {"a": {}}}, budget)

    with pytest.raises(OutOfBudget, match="running out of cost budget"):
        AdmissionExpression("object.a.b").evaluate({"object": {"a": {"b": 1}}}, budget)


def test_results_are_those_without_limits() -> None:
    data = {"l": [1, 2, 3], "m": {"a": 1}, "s": "abc"}
    for text, expected in (
        ("object.l.map(x, x * 2).filter(x, x > 2)", [4, 6]),
        ("object.l.exists_one(x, x == 2) && object.m.exists(k, k == 'a')", True),
        ("object.l.all(x, x > 0) && !object.l.all(x, x > 1)", True),
        ("object.?n.orValue([0, 1.5, -7, 0x10, 3u, b'a', null])", [0, 1.5, -7, 16, 3, b"a", None]),
        ("{'k': object.s + 'ü', 'c': object.s.contains('bc')}", {"k": "abcü", "c": True}),
        ("has(object.m.a) && !has(object.m.b) ? 'yes' : 'no'", "yes"),
        ("object.s.matches('^a.c$') && !object.s.matches('b$')", True),
        ("timestamp('2024-01-01T00:00:00Z') < timestamp('2025-01-01T00:00:00Z')", True),
    ):
        assert AdmissionExpression(text).evaluate({"object": data}) == expected, text


def test_user_cannot_call_added_functions() -> None:
    with pytest.raises(CelError, match="compilation failed"):
        AdmissionExpression("@permits(1)")
