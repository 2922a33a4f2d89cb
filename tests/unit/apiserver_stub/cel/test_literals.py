"""Errors in the literals of expressions."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import Checker, InstantiationError


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2].size() == {'a': 1, 'b': 2}.size()",
        "[[1], []].size() == [object.a, object.b].size()",
        "[?object.?a, ?optional.of(1)].size() == 2",
        "[[1], [object.a]].size() == [{'a': 1}, {'a': object.b}].size()",
        "object.x.startsWith('(') && object.x.contains('duration(')",
        "object.matches('[a-z]+') && duration('1h') > duration(object.x)",
    ],
)
def test_uniform_and_convertible_literals_are_valid(text: str) -> None:
    Checker(params=False).check(text)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 'a'].size() == 2",
        "{'a': 1, 'b': 'c'}.size() == 2",
        "object.x.all(y, y in [1, y])",
        "[[1], ['a']].size() == 2",
        "[[1], {'a': 1}].size() == 2",
        "[{'a': 1}, {'a': 'b'}].size() == 2",
        "!has(object.x) || {1: [null, 1]}[1].size() == 2",
    ],
)
def test_items_of_different_types_do_not_compile(text: str) -> None:
    with pytest.raises(CelError, match="different types"):
        Checker(params=False).check(text)


@pytest.mark.parametrize(
    "text",
    [
        "object.x.matches('(')",
        "object.x.find('(') == ''",
        "object.x.findAll('(', 1).size() == 0",
        "duration('x') > duration('1h')",
        "object.a ? timestamp('x') == object.t : false",
    ],
)
def test_literal_that_cannot_be_converted_fails_at_instantiation(text: str) -> None:
    with pytest.raises(InstantiationError, match="program instantiation failed"):
        Checker(params=False).check(text)
