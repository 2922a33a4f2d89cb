"""Tests for regular expressions of CEL: the syntax and time of RE2."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import AdmissionExpression
from apiserver_stub.cel.patterns import find, find_all, matches, pattern_problem


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a)\\1", "error parsing regexp: invalid escape sequence: `\\1`"),
        ("a(?=b)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "error parsing regexp: invalid or unsupported Perl syntax: `(?<!`"),
        ("(a", "error parsing regexp: missing closing ): `(a`"),
        ("[a-z]+(b|c)*$", ""),
    ],
)
def test_patterns_that_need_backtracking_are_invalid(pattern: str, problem: str) -> None:
    assert pattern_problem(pattern) == problem


def test_matches_are_parts_of_the_text() -> None:
    assert matches("aüb", "^a.b$")
    assert find("xaüb", "ü.") == "üb"
    assert find("x", "y") == ""
    assert find_all("a1b22c333", "[0-9]+") == ["1", "22", "333"]
    assert find_all("a1b22c333", "[0-9]+", 2) == ["1", "22"]
    assert find_all("a1", "[0-9]+", 0) == []


def test_pattern_with_exponential_backtracking_takes_linear_time() -> None:
    text = "a" * 30_000 + "b"

    assert find(text, "(a+)+$") == ""
    assert AdmissionExpression("object.findAll('(a|aa)+$')").evaluate({"object": text}) == []


def test_invalid_pattern_in_data_is_an_error() -> None:
    with pytest.raises(CelError, match="error parsing regexp: missing closing"):
        AdmissionExpression("'a'.find(object)").evaluate({"object": "[a"})
