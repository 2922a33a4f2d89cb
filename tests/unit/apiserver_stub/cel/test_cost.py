"""Tests for the estimated costs of expressions, which are those of kube-apiserver 1.29 to the unit."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.cel.cost_bounds import UNLIMITED
from apiserver_stub.cel.schema_rules import RuleChecker
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.schema_rules.sizes import shapes_of
from apiserver_stub.validation.schema_rules.types import ObjectTypes


def text(length: int | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "string", **({} if length is None else {"maxLength": length}), **more}


def items(schema: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": schema, "maxItems": most}


def values(schema: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema, "maxProperties": most}


SCHEMA = {
    "type": "object",
    "properties": {
        "s": text(),
        "s10": text(10),
        "e": text(enum=["abc", "defgh"]),
        "b": text(20, format="byte"),
        "d": text(format="duration"),
        "t": text(format="date-time"),
        "n": {"type": "integer"},
        "f": {"type": "number"},
        "q": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": True},
        "l": items(text(5), 10),
        "lu": {"type": "array", "items": {"type": "integer"}},
        "ln": items({"type": "integer"}, 7),
        "lo": items({"type": "object", "required": ["a"], "properties": {"a": text(8), "k": {"type": "integer"}}}, 5),
        "ll": items(items(text(6), 4), 3),
        "m": values(text(9), 6),
        "mo": values({"type": "object", "properties": {"a": text(8)}}, 4),
        "ml": values(items(text(2), 3), 4),
        "o": {"type": "object", "properties": {"x": text(4), "namespace": text(3)}},
    },
}


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        ("self.s10 == 'abc'", 3),
        ("self.s10 == self.s", 8),
        ("self.n > 3", 3),
        ("self.f < 2.5", 3),
        ("has(self.s10)", 1),
        ("has(self.o.x)", 2),
        ("self.o.x == ''", 3),
        ("self.o.__namespace__ == 'a'", 4),
        ("self.s10.startsWith('ab')", 3),
        ("self.s10.endsWith(self.o.x)", 7),
        ("self.s10.contains('ab')", 6),
        ("self.s10.contains(self.o.x)", 13),
        ("self.s10.matches('^a.*b$')", 12),
        ("matches(self.s10, 'a')", 3),
        ("self.s10 + self.o.x == 'a'", 12),
        ("self.s10 < self.o.x", 7),
        ("size(self.s10) > 3", 4),
        ("self.s10.size() > 3", 4),
        ("'a' in self.l", 12),
        ("self.s10 in self.l", 14),
        ("self.s10 in ['a','b']", 14),
        ("self.s10 in self.m", 5),
        ("self.l.all(x, x == 'a')", 53),
        ("self.l.exists(x, x.startsWith('a'))", 63),
        ("self.l.exists_one(x, x == self.s10)", 74),
        ("self.l.map(x, x + 'a').size() > 1", 175),
        ("self.l.filter(x, x != 'a').size() > 1", 165),
        ("self.ln.all(x, x > 1)", 38),
        ("self.ln.map(x, x * 2).sum() > 1", UNLIMITED),
        ("self.lo.all(x, x.a == 'b')", 33),
        ("self.lo.all(x, has(x.k) && x.k > 3)", 38),
        ("self.lo.all(x, self.lo.all(y, x.a == y.a))", 308),
        ("self.ll.all(x, x.all(y, y == 'a'))", 78),
        ("self.ll[0][1] == 'a'", 5),
        ("self.lo[0].a == 'b'", 5),
        ("self.l[0] == 'b'", 4),
        ("self.m['a'] == 'b'", 4),
        ("self.m.all(k, k == 'a')", 27),
        ("self.m.all(k, self.m[k] == 'a')", 51),
        ("self.mo.all(k, self.mo[k].a == 'a')", 39),
        ("self.ml['x'][0] == 'y'", 5),
        ("self.ml.all(k, self.ml[k].all(v, v == 'a'))", 95),
        ("self.q", 2),
        ("self.q && self.n > 1", 5),
        ("self.q || self.n > 1 || self.s10 == 'a'", 8),
        ("self.q ? self.n > 1 : self.s10 == 'ab'", 5),
        ("!self.q", 3),
        ("self.n + 1 == 2", 4),
        ("-self.n > 2", 4),
        ("self.e == 'abc'", 3),
        ("self.b == b'ab'", 3),
        ("string(self.b) == 'a'", 5),
        ("bytes(self.s10) == b'a'", 7),
        ("int(self.s10) > 3", 4),
        ("string(self.n) == 'a'", 4),
        ("self.d > duration('1s')", 4),
        ("self.t > timestamp('2020-01-01T00:00:00Z')", 4),
        ("type(self.ios) == int ? self.ios > 3 : self.ios == 'a'", 7),
        ("self.s10.lowerAscii() == 'a'", 7),
        ("self.s10.upperAscii().contains('A')", 10),
        ("self.s10.trim() == 'a'", 7),
        ("self.s10.substring(1) == 'a'", 7),
        ("self.s10.replace('a','bb') == 'a'", 11),
        ("self.s10.replace('aa','b') == 'a'", 11),
        ("self.s10.replace('', 'b') == 'a'", 11),
        ("self.s10.split(',').size() > 1", 12),
        ("self.s10.split(',', 2).all(x, x == 'a')", 19),
        ("self.l.join() == 'a'", 23),
        ("self.l.join(',') == 'a'", 24),
        ("self.s10.find('a.') == 'a'", 8),
        ("self.s10.findAll('a').size() > 1", 9),
        ("self.s10.indexOf('a') > 1", 7),
        ("self.s10.charAt(1) == 'a'", 4),
        ("self.l.indexOf('a') > 1", 33),
        ("self.l.isSorted()", 32),
        ("self.ln.isSorted()", 9),
        ("self.ln.max() > 1", 10),
        ("self.ln.sum() > 1", 10),
        ("self.l.min() == 'a'", 33),
        ("isURL(self.s10)", 3),
        ("url(self.s10).getHost() == 'a'", 8),
        ("url(self.s10).getPort() == 'a'", 8),
        ("self.l == ['a']", 13),
        ("self.l + ['a'] == ['b']", 24),
        ("{'a': self.s10}.size() > 0", 34),
        ("[1, self.n].size() > 1", 14),
        ("self.m == {'a': 'b'}", 33),
        ("self.lo.filter(x, x.a == 'a').all(y, y.k > 1)", UNLIMITED),
        ("self.l.map(x, self.s10 + x).exists(y, y == 'a')", UNLIMITED),
        ("self.s10.size() == self.l.size()", 7),
        ("self.n in [1,2,3]", 15),
        ("self.o == self.o", 4),
        ("{'a': self.o}.a.x == ''", 34),
        ("{'a': 1}.a == 1", 32),
        ("dyn(self.o).x == ''", 3),
        ("self.lo.exists(x, x.a in self.l)", 93),
        ("quantity(self.s10).isGreaterThan(quantity('1'))", 5),
        ("isQuantity(self.s10)", 3),
        ("self.l.all(x, self.l.exists_one(y, x == y))", 673),
        ("self.lo.map(x, x.a).isSorted()", UNLIMITED),
        ("self.lo.map(x, x.a).all(x, x == 'a')", UNLIMITED),
        ("self.ll.map(x, x.size()).sum() > 1", UNLIMITED),
        ("dyn(self.s10) == 'a'", 4),
        ("self.s10 != 'a' ? 'a' == 'b' : self.l.all(x, x != 'b')", 56),
        ("oldSelf.s10 == self.s10", 8),
    ],
)
def test_estimate_is_that_of_kube_apiserver(rule: str, cost: int) -> None:
    node, types = tree_of(SCHEMA), ObjectTypes()
    checker = RuleChecker(types.add(node), types.found, shapes_of(node, is_resource=False))

    assert checker.check_rule(rule, optional_old=False) == cost


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        ("sets.contains(self.l, ['a', 'b'])", 10 * 2 + 1 + 2 + 10),
        ("sets.intersects(self.ln, self.ln)", 7 * 7 + 1 + 4),
        ("sets.equivalent(self.ln, self.ln)", 2 * 7 * 7 + 1 + 4),
    ],
)
def test_sets_cost_a_comparison_of_each_pair(rule: str, cost: int) -> None:
    node, types = tree_of(SCHEMA), ObjectTypes()
    checker = RuleChecker(types.add(node), types.found, shapes_of(node, is_resource=False))

    assert checker.check_rule(rule, optional_old=False) == cost
