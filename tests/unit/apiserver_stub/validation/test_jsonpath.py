"""Syntax check of JSONPath expressions."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.jsonpath import jsonpath_problem


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("spec.validations[0].expression", ""),
        (".items[*]['name','kind']", ""),
        ("..name", ""),
        ("[?(@.x == 'a')].y", ""),
        ("""[?(@.x == 'a")')].y""", ""),
        ("""[?(@.x == "a')")].y""", ""),
        (r"[?(@.x == 'a\')')].y", ""),
        ("[1:-1:2]", ""),
        ("$.a 'text' 1.5", ""),
        ("....", "invalid multiple recursive descent"),
        ("a[0", "unterminated array"),
        ("a[x]", "invalid array index x"),
        ("a[-]", "array index - is not a number"),
        ("'a", "unterminated quoted string"),
        ("[?(@.x]", "unterminated filter"),
        ("[?(@.x)", "unclosed array expect ]"),
        ("1.2.3", "cannot parse number 1.2.3"),
        ("%", "unrecognized character in action: U+0025 '%'"),
        ("a\nb", "unclosed action"),
    ],
)
def test_problem_of_a_path_is_that_of_upstream(path: str, problem: str) -> None:
    assert jsonpath_problem(path) == problem
