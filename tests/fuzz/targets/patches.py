"""Patches of API objects."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec

from apiserver_stub.apimachinery import json_patch as patches
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.schema import field_sets, shapes
from apiserver_stub.schema.strategic_merge import apply_strategic_patch
from apiserver_stub.schema.typed import comparison as typed
from apiserver_stub.schema.typed.elements import InvalidElement
from apiserver_stub.schema.typed.merging import merge, remove
from apiserver_stub.schema.typed.validation import validate
from tests.fuzz.fields import changed
from tests.fuzz.target import target

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/a", "x/b"]},
    "spec": {
        "containers": [
            {"name": "a", "image": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "A"}]},
            {"name": "b", "image": "b", "args": ["1", "2"]},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a"}],
    },
}
FIELDS = (
    b'"spec"',
    b'"containers"',
    b'"name"',
    b'"labels"',
    b'"metadata"',
    b'"ports"',
    b'"finalizers"',
    b'"tolerations"',
    b"null",
    b"1.0",
    b"true",
    b'{"a":',
    b"[" * 400,
)
OPERATIONS = (
    b'{"op":"',
    b"add",
    b"copy",
    b"move",
    b"test",
    b"remove",
    b"replace",
    b'"path":"',
    b'"from":"',
    b'"value":',
    b"/spec/containers/0",
    b"/-",
    b"~1",
    b"~0",
    b"/metadata/labels",
)
DIRECTIVES = (
    b'"$patch":"delete"',
    b'"$patch":"replace"',
    b'"$retainKeys":[',
    b'"$setElementOrder/containers":[',
    b'"$deleteFromPrimitiveList/finalizers":[',
)
# The pipeline rejects bodies that are nested too deeply.
ERRORS = (ApiError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
SHAPE = shapes.of("v1", "Pod", "k8s.io")
assert SHAPE is not None


@target(*ERRORS, tokens=OPERATIONS)
def json_patch(data: bytes) -> None:
    """The object is not changed, and the result is JSON."""
    _unchanged(patches.apply_json_patch, objects.decode(data))


@target(*ERRORS, tokens=FIELDS)
def merge_patch(data: bytes) -> None:
    """Applying a patch again changes nothing, once the nulls of a list that replaced an object are dropped."""
    patch = objects.decode(data)
    result = patches.apply_merge_patch(_unchanged(patches.apply_merge_patch, patch), patch)
    assert patches.apply_merge_patch(result, patch) == result


@target(*ERRORS, tokens=(*FIELDS, *DIRECTIVES))
def strategic_patch(data: bytes) -> None:
    """The object is not changed, and the result is JSON."""
    _unchanged(lambda document, patch: apply_strategic_patch(document, patch, SHAPE), objects.decode(data))


def _unchanged(apply: Any, patch: Any) -> Any:
    document, sent = copy.deepcopy(POD), json.dumps(patch)
    result = apply(document, patch)
    assert document == POD
    assert json.dumps(patch) == sent
    objects.encode(result)
    return result


@target(
    ValueError,
    RecursionError,
    tokens=(b'"f:metadata":{', b'"k:{\\"name\\":\\"a\\"}":{', b'"v:1":{}', b'"i:0":{}', b'".":{}', b'"v:', b"[" * 1100),
)
def field_set(data: bytes) -> None:
    """A set of fields is written as it was read, and can be combined with others."""
    fields, other = field_sets.decode(msgspec.json.decode(data)), typed.fields_of(POD, SHAPE)
    assert field_sets.decode(field_sets.encode(fields)) == fields
    both = field_sets.union(fields, other)
    assert field_sets.union(both, fields) == both
    field_sets.difference(both, other)
    field_sets.intersection(fields, other)
    field_sets.recursive_difference(both, fields)
    assert list(field_sets.paths(both))


@target(InvalidElement, RecursionError)
def apply_patch(data: bytes) -> None:
    """Applying a configuration again changes nothing, and its fields can be removed."""
    config = changed([POD], b"\x00" + data)
    if not isinstance(config, dict) or validate(config, SHAPE):
        return
    live = copy.deepcopy(POD)
    merged = merge(live, config, SHAPE)
    assert live == POD
    assert merge(merged, config, SHAPE) == merged
    typed.compare(live, merged, SHAPE)
    remove(merged, typed.fields_of(config, SHAPE), SHAPE)
