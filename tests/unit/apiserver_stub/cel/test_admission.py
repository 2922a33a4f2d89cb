"""Type checks of admission expressions."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import BOOL, NULL, STRING, CelError
from apiserver_stub.cel.admission import Checker


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
