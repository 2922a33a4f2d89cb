"""Tests for JSONPath expressions of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.json_paths import text_of, values_at

DOCUMENT: dict[str, Any] = {
    "a": {"b.c": 1, "list": [{"type": "x", "n": 1}, {"type": "y", "n": 2}, {"n": 3, "on": True}]},
    "texts": ["p", "q", "r"],
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a.list[0].n", [1]),
        (".a.list[-1].n", [3]),
        (".a.list[*].n", [1, 2, 3]),
        (".a['b.c']", [1]),
        (r".a.b\.c", [1]),
        ('.a.list[?(@.type=="y")].n', [2]),
        (".a.list[?(@.n>1)].n", [2, 3]),
        (".a.list[?(@.on==true)].n", [3]),
        (".a.list[?(@.type)].n", [1, 2]),
        (".texts[1:]", ["q", "r"]),
        (".texts[0,2]", ["p", "r"]),
        ("..type", ["x", "y"]),
        (".missing.more", []),
        (".texts[9]", []),
        (".texts[2]", ["r"]),
        (".texts[3]", []),
        (".texts[-3]", ["p"]),
        (".texts[-4]", []),
        (".texts[:2]", ["p", "q"]),
        (".texts[::2]", ["p", "r"]),
        (".texts[::0]", []),
        (".texts[0:3:-1]", []),
        (".texts.*", ["p", "q", "r"]),
        (".[0]", []),
        (".texts.[0]", ["p"]),
        ("..[0]", [DOCUMENT["a"]["list"][0], "p"]),
        (".a.list[?(@.type=='x')].n", [1]),
        (".a.list[?(@.type!='x')].n", [2]),
        (".a.list[?(@.n<2)].n", [1]),
        (".a.list[?(@.n<=2)].n", [1, 2]),
        (".a.list[?(@.n>=2.5)].n", []),
        (".a.list[?(@.on==false)].n", []),
        (".a.list[?(@.on<1)].n", []),
        (".a.list[?(@.type==1)].n", []),
        (".texts['p']", []),
        (".a['b.c','list'][0].n", [1]),
        (".texts[x]", []),
        (".", [DOCUMENT]),
    ],
)
def test_values_are_found(path: str, expected: list[Any]) -> None:
    assert list(values_at(path, DOCUMENT)) == expected


def test_values_have_the_text_of_kubectl() -> None:
    assert [text_of(value) for value in ("a", 1, 1.5, True, {"a": [1]})] == ["a", "1", "1.5", "true", '{"a":[1]}']
