"""Type checks of admission expressions."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import BOOL, NULL, STRING, CelError
from apiserver_stub.cel.admission import Checker, KindChecker


@pytest.mark.parametrize(
    ("text", "returns"),
    [
        ("object.metadata.name == 'x'", (BOOL,)),
        ("oldObject == null || has(object.spec)", (BOOL,)),
        ("request.userInfo.groups.exists(group, group == 'a')", (BOOL,)),
        ("namespaceObject.metadata.labels['a'] == 'b'", (BOOL,)),
        ("params.limit > 1", (BOOL,)),
        ("variables.count[0] == 1 && has(variables.total)", (BOOL,)),
        ("request.operation", (STRING,)),
        ("null", (STRING, NULL)),
    ],
)
def test_expression_of_an_expected_type_is_valid(text: str, returns: tuple[str, ...]) -> None:
    checker = Checker(params=True, composed=True)
    checker.define("count", "[1, 2]")
    checker.define("total", "object.total")

    checker.check(text, returns)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("object.spec.flag", "must evaluate to bool"),
        ("'a'", "must evaluate to bool"),
        ("params.x == 1", "compilation failed: .*'params"),
        ("variables.x == 1", "compilation failed: .*'variables"),
        ("request.unknown == 'a'", "compilation failed: .*undefined field 'unknown'"),
        ("'a'.reverse() == 'a'", "compilation failed: .*'reverse'"),
        ("object.", "compilation failed: .*Syntax error"),
    ],
)
def test_expression_that_cannot_be_evaluated_is_invalid(text: str, problem: str) -> None:
    with pytest.raises(CelError, match=problem):
        Checker(params=False).check(text)


def test_variable_has_the_type_of_its_expression() -> None:
    checker = Checker(params=False, composed=True)
    checker.define("text", "'a'")
    checker.define("a_b", "1")
    checker.define("aB", "1")
    with pytest.raises(CelError, match="compilation failed"):
        checker.define("broken", "object.")

    checker.check("variables.broken.x == 1")
    with pytest.raises(CelError, match="no matching overload"):
        checker.check("variables.text == 1")


THING = {"Thing": {"name": "string"}}


def test_variables_of_a_kind_are_declared_when_they_are_defined() -> None:
    checker = KindChecker("Thing", THING, params=None, composed=True)
    before = checker.issues("variables.a == 'x'")
    checker.define("a", "object.name")

    assert "undefined field 'a'" in before
    assert checker.issues("variables.a == 'x'") == ""
    assert "undefined field 'b'" in checker.issues("variables.b == 'x'")
    checker.define("b", "1")
    assert checker.issues("variables.b == 1 && oldObject.name == variables.a") == ""


@pytest.mark.parametrize(
    ("params", "text", "issue"),
    [
        (None, "params.name == 'a'", "undeclared reference"),
        ("Thing", "params.name == 'a'", ""),
        ("Thing", "params.size == 1", "undefined field 'size'"),
        ("dyn", "params.size == 1", ""),
    ],
)
def test_parameters_of_a_policy_have_their_type(params: str | None, text: str, issue: str) -> None:
    found = KindChecker("Thing", THING, params=params).issues(text)

    assert issue in found
    assert bool(found) is bool(issue)
