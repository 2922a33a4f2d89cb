"""Functions of the Kubernetes CEL libraries."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.cel import CelError, library
from apiserver_stub.cel.admission import AdmissionExpression, Checker


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'abc'.charAt(1) + 'abc'.charAt(3)", "b"),
        (
            "['abc'.indexOf('c'), 'abc'.indexOf('a', 1), 'aba'.lastIndexOf('a'), 'aba'.lastIndexOf('a', 1)]",
            [2, -1, 2, 0],
        ),
        ("['abc'.indexOf('c', 2), 'abc'.indexOf('c', 3), 'abc'.indexOf('c', 9)]", [2, -1, -1]),
        ("['abc'.indexOf(''), 'abc'.indexOf('', 2), 'abc'.indexOf('', 9), 'abc'.indexOf('', -1)]", [0, 2, 9, -1]),
        ("['abc'.lastIndexOf(''), 'abc'.lastIndexOf('', 1), 'abc'.lastIndexOf('', 9)]", [3, 1, 9]),
        ("['aba'.lastIndexOf('a', 2), 'aba'.lastIndexOf('a', 0), 'aba'.lastIndexOf('a', 3)]", [2, 0, -1]),
        ("['abc'.charAt(0), 'abc'.substring(3), 'abc'.substring(1, 1), 'abc'.substring(0, 3)]", ["a", "", "", "abc"]),
        ("'a,b,c'.split(',', 3) + 'a,b'.split(',', 1) + 'a'.split(',', 0)", ["a", "b", "c", "a,b"]),
        ("'a,b,c'.split(',', -1) + 'abc'.split('', 2)", ["a", "b", "c", "a", "bc"]),
        ("'a,b,c'.split(',', 2) + 'a,b'.split(',', 2) + 'a'.split(',', 9)", ["a", "b,c", "a", "b", "a"]),
        ("'abc'.split('') + 'ab'.split('', 9) + 'ab'.split('', 1) + ''.split('')", ["a", "b", "c", "a", "b", "ab"]),
        ("[sets.contains(['a'], [['a']]), sets.intersects([['a']], ['a'])]", [False, False]),
        (
            "['%f %.2f %e'.format([1.5, 1.5, 1.5]), '%d %x %X %o %b'.format([10, 10, 10, 10, 10])]",
            ["1.500000 1.50 1.500000e+00", "10 a A 12 1010"],
        ),
        (
            "['%s %%'.format([[1, 'a', null, true, 1.5]]), '%x %X %s'.format(['hi', b'hi', b'hi'])]",
            ["[1, a, null, true, 1.5] %", "6869 6869 hi"],
        ),
        ("['a', 'b'].join() + ['a', 'b'].join('-')", "aba-b"),
        ("'Éa'.upperAscii() + 'ÉA'.lowerAscii()", "ÉAÉa"),
        ("'aaa'.replace('a', 'b') + 'aaa'.replace('a', 'b', 1)", "bbbbaa"),
        ("'a b c'.split(' ') + 'a b c'.split(' ', 2)", ["a", "b", "c", "a", "b c"]),
        ("'abc'.substring(1) + 'abc'.substring(0, 1) + ' a '.trim()", "bcaa"),
        ("'a1b22'.find('[0-9]+') + 'a'.find('[0-9]')", "1"),
        ("'a1b22'.findAll('[0-9]+') + 'a1b22'.findAll('[0-9]+', 1)", ["1", "22", "1"]),
        ("[[1, 2].isSorted(), ['b', 'a'].isSorted(), [].isSorted()]", [True, False, True]),
        ("[[1, 2].sum(), [3, 1].min(), [3, 1].max(), [1, 2, 1].indexOf(1), [1, 2, 1].lastIndexOf(1)]", [3, 1, 3, 0, 2]),
        ("object.list.sum() + object.list.max()", 8),
        ("[object.list.indexOf('a'), object.list.indexOf(true), object.mixed.indexOf(null)]", [-1, -1, 1]),
        ("[sets.contains([1, 2], [2]), sets.contains([1], [1, 2]), sets.contains([1], [])]", [True, False, True]),
        (
            "[sets.intersects([1, [2]], [[2]]), sets.intersects([1], [true]), sets.intersects([], [])]",
            [True, False, False],
        ),
        ("[sets.contains([[1, 2]], [[1]]), sets.contains([[1]], [[1, 2]])]", [False, False]),
        ("[sets.intersects([{'a': 1}], [1]), sets.intersects([1], [{'a': 1}])]", [False, False]),
        ("[sets.contains([{'a': 1}], [{'a': 1}]), sets.contains([{'a': 1}], [{'b': 1}])]", [True, False]),
        ("[sets.contains([{'a': 1}], [{'a': 2}]), sets.contains([[1]], [1])]", [False, False]),
        ("[sets.equivalent(['a', 'b', 'a'], ['b', 'a']), sets.equivalent(['a'], ['b'])]", [True, False]),
        ("[sets.equivalent([1, 2], [2]), sets.equivalent([2], [1, 2]), sets.equivalent([], [])]", [False, False, True]),
        ("[sets.contains(object.mixed, ['a']), sets.contains(['a'], object.mixed)]", [True, False]),
        ("[sets.contains(['a', 'b'], ['a']), sets.contains(['a'], ['a', 'b'])]", [True, False]),
        ("[sets.intersects(['a'], ['b']), sets.intersects(['a', 'b'], ['b'])]", [False, True]),
        ("sets.contains(object.list, [3, 1]) && sets.intersects(object.mixed, [null])", True),
        ("[isURL('https://a/b'), isURL('../a'), isURL('/a')]", [True, False, True]),
        (
            "[url('https://a:80/b%20c?d=e&d=f')].map(u, [u.getScheme(), u.getHost(), u.getHostname(), u.getPort(), "
            "u.getEscapedPath(), u.getQuery()['d'][1]])[0]",
            ["https", "a:80", "a", "80", "/b%20c", "f"],
        ),
        ("[url('https://[::1]/').getHostname(), url('https://[::1]/').getPort()]", ["::1", ""]),
        ("[isQuantity('1Gi'), isQuantity('x'), quantity('1Ki') == quantity('1024')]", [True, False, True]),
        ("quantity('1').isGreaterThan(quantity('500m')) && quantity('1').isLessThan(quantity('2'))", True),
        ("[quantity('1').compareTo(quantity('2')), sign(quantity('-1')), quantity('2k').asInteger()]", [-1, -1, 2000]),
        ("[quantity('1').add(quantity('500m')), quantity('2').sub(1)].map(q, q.asApproximateFloat())", [1.5, 1.0]),
        ("quantity('1.5').isInteger()", False),
        (
            "[quantity('1').isGreaterThan(quantity('1')), quantity('1').isLessThan(quantity('1'))]"
            " + [quantity('1').compareTo(quantity('1')) == 0, sign(quantity('0')) == 0]",
            [False, False, True, True],
        ),
        ("1 < 2.0 && 1.5 > 1u", True),
    ],
)
def test_value_of_an_expression_is_that_of_upstream(text: str, value: Any) -> None:
    assert AdmissionExpression(text).evaluate({"object": {"list": [1, 3, 1], "mixed": ["a", None]}}) == value


@pytest.mark.parametrize(
    "text",
    [
        "'a'.charAt(2)",
        "'a'.charAt(-1)",
        "'a'.indexOf('a', -1)",
        "'a'.lastIndexOf('a', -1)",
        "'abc'.substring(-1)",
        "'abc'.substring(2, 1)",
        "'abc'.substring(0, 4)",
        "'a'.substring(2)",
        "[].min()",
        "url('a b')",
        "quantity('x')",
        "quantity('1.5').asInteger()",
        "object.x.sum()",
    ],
)
def test_evaluation_outside_the_domain_of_a_function_fails(text: str) -> None:
    with pytest.raises(CelError):
        AdmissionExpression(text).evaluate({"object": {"x": 1}})


@pytest.mark.parametrize(
    "text",
    [
        "['a'].sum() == 'a'",
        "'a'.sum() == 1",
        "url(1).getHost() == 'a'",
        "quantity('1') < quantity('2')",
        "authorizer.check('get').allowed()",
    ],
)
def test_function_with_wrong_arguments_does_not_compile(text: str) -> None:
    with pytest.raises(CelError, match="no matching overload"):
        Checker(params=False).check(text)


@pytest.mark.parametrize(
    ("name", "expected"), [("isLessThan", [True, False, False]), ("isGreaterThan", [False, False, True])]
)
def test_quantities_are_compared_in_custom_resources(name: str, expected: list[bool]) -> None:
    (found,) = [item for item in library.FUNCTIONS if item.name == name]

    assert [
        found.implementation(library.quantity(text), library.quantity("1")) for text in ("0.5", "1", "2")
    ] == expected
