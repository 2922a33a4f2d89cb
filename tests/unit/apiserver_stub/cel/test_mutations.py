"""Tests for expressions that build configurations and patches."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.cel import CelError
from apiserver_stub.cel.mutation_expressions import APPLY, JSON_PATCH, MutationExpression, check_mutation

DATA = {"object": {"spec": {"replicas": 2, "names": ["a", "b"]}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{replicas: object.spec.replicas * 2}}", {"spec": {"replicas": 4}}),
        ("Object{?a: optional.none(), ?b: optional.of(1)}", {"b": 1}),
        ("has(object.x) ? Object{} : Object{a: {'k': Object.a{b: true}}}", {"a": {"k": {"b": True}}}),
        (
            "Object{spec: Object.spec{items: object.spec.names.map(n, Object.spec.items{name: n})}}",
            {"spec": {"items": [{"name": "a"}, {"name": "b"}]}},
        ),
        ("Object{at: timestamp('2026-01-02T03:04:05Z'), for: duration('90s')}", None),
        (
            "[JSONPatch{op: 'move', from: '/a', path: '/' + jsonpatch.escapeKey('b/c~d')}] + []",
            [{"op": "move", "from": "/a", "path": "/b~1c~0d"}],
        ),
    ],
)
def test_literals_of_objects_become_maps(text: str, value: Any) -> None:
    found = MutationExpression(text).evaluate(DATA)

    assert found == ({"at": "2026-01-02T03:04:05Z", "for": "90s"} if value is None else value)


@pytest.mark.parametrize(
    ("text", "patch_type"),
    [
        ("Object{spec: Object.spec{n: params.a + variables.b + object.spec.replicas}}", APPLY),
        ("object.spec.names.exists(n, n == oldObject.x) ? Object{} : Object{a: string(1)}", APPLY),
        ("[JSONPatch{op: 'add', path: '/a', value: Object.spec{x: dyn(1)}}]", JSON_PATCH),
        (
            "sets.contains([1], [1]) && authorizer.group('').resource('pods').check('get').allowed() ? [] : []",
            JSON_PATCH,
        ),
    ],
)
def test_valid_mutation_is_accepted(text: str, patch_type: str) -> None:
    check_mutation(text, patch_type, ["params", "variables"])


@pytest.mark.parametrize(
    ("text", "patch_type", "problem"),
    [
        ("Object{", APPLY, "compilation failed"),
        ("Object{a: params.b}", APPLY, "undeclared reference to 'params'"),
        ("Object{a: object.b.map(x, y)}", APPLY, "undeclared reference to 'y'"),
        ("Object{a: Nope.b{}}", APPLY, "undeclared reference to 'Nope.b'"),
        ("JSONPatch{}", APPLY, r"must evaluate to Object"),
        ("Object{}", JSON_PATCH, r"must evaluate to list\(JSONPatch\)"),
    ],
)
def test_invalid_mutation_is_rejected(text: str, patch_type: str, problem: str) -> None:
    with pytest.raises(CelError, match=problem):
        check_mutation(text, patch_type, [])
