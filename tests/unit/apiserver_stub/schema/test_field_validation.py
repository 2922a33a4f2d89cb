"""Tests for the validation of objects against the schemas of their kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import SchemaMismatch, check, count_members, repeated

EVENT, POD = "events.k8s.io/v1", "v1"


def checked(
    obj: dict[str, Any], version: str = EVENT, kind: str = "Event", *, complete: bool = False
) -> tuple[dict[str, Any], list[str]]:
    shape = shapes.of(version, kind, "k8s.io")
    assert shape is not None
    return obj, check(obj, shape, complete=complete).unknown


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        ({"note": 1}, "json: cannot unmarshal number into Go struct field Event.note of type string"),
        ({"regarding": {"name": 2}}, "number into Go struct field ObjectReference.regarding.name of type string"),
        ({"regarding": []}, "array into Go struct field Event.regarding of type v1.ObjectReference"),
        ({"deprecatedCount": 2.0}, "number 2.0 into Go struct field Event.deprecatedCount of type int32"),
        ({"deprecatedCount": 1 << 31}, "number 2147483648 into"),
        ({"deprecatedCount": True}, "bool into"),
        ({"metadata": {"labels": {"a": 1}}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
        ({"metadata": {"finalizers": "x"}}, "string into Go struct field ObjectMeta.metadata.finalizers"),
        ({"metadata": {"ownerReferences": [1]}}, "number into Go struct field ObjectMeta.metadata.ownerReferences"),
        ({"eventTime": "2026-11-21T00:00:00.1Z"}, 'as "2006-01-02T15:04:05.000000Z07:00"'),
        ({"deprecatedFirstTimestamp": "yesterday"}, 'parsing time "yesterday"'),
    ],
)
def test_wrong_type_is_reported_with_its_path(obj: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaMismatch) as raised:
        checked(obj)

    assert problem in str(raised.value)


def test_unknown_fields_are_dropped() -> None:
    pod, unknown = checked({"foo": {"a": 1}, "spec": {"x": 1, "containers": [{"name": "c", "bar": 2}]}}, POD, "Pod")

    assert unknown == ["foo", "spec.x", "spec.containers[0].bar"]
    assert pod == {"spec": {"containers": [{"name": "c"}]}}


def test_nulls_are_dropped_from_complete_objects_only() -> None:
    applied, _ = checked({"data": None, "immutable": None, "metadata": {"labels": None}}, POD, "ConfigMap")
    stored, _ = checked({"data": None, "immutable": None, "metadata": {"name": None}}, POD, "ConfigMap", complete=True)

    assert applied == {"data": None, "immutable": None, "metadata": {"labels": None}}
    assert stored == {"metadata": {"creationTimestamp": None}}


def test_null_list_items_become_zero_values() -> None:
    pod, _ = checked({"metadata": {"finalizers": [None]}, "spec": {"containers": [None]}}, POD, "Pod")

    assert pod == {"metadata": {"finalizers": [""]}, "spec": {"containers": [{}]}}


def test_null_lists_in_a_map_are_kept() -> None:
    review, _ = checked({"spec": {"extra": {"a": None}}}, "authorization.k8s.io/v1", "SubjectAccessReview")

    assert review == {"spec": {"extra": {"a": None}}}


def test_overhead_of_a_runtime_class_is_not_rounded() -> None:
    runtime_class, _ = checked({"overhead": {"podFixed": {"cpu": "1.0005"}}}, "node.k8s.io/v1", "RuntimeClass")
    limits, _ = checked({"spec": {"overhead": {"cpu": "1.0005"}}}, POD, "Pod")

    assert runtime_class["overhead"]["podFixed"] == {"cpu": "1000500u"}
    assert limits["spec"]["overhead"] == {"cpu": "1001m"}


def test_times_are_kept_in_utc() -> None:
    event, _ = checked({"eventTime": "2026-11-21T02:00:00.000001+02:00", "metadata": {}})

    assert event["eventTime"] == "2026-11-21T00:00:00.000001Z"


def test_numbers_become_quantities() -> None:
    pod, _ = checked({"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}, POD, "Pod")

    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    with pytest.raises(SchemaMismatch):
        checked({"spec": {"overhead": {"cpu": "much"}}}, POD, "Pod")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a":1,"b":{"c":1}}', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a":1, "a" : 2}', ["a"]),
        (b'{"a":[{"b":1,"b":2}]}', ["a[0].b"]),
        (b'{"a":"x\\":","b":1}', []),
    ],
)
def test_duplicate_fields_are_detected(body: bytes, found: list[str]) -> None:
    assert repeated(body, count_members(json.loads(body))) == found


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(['":', '" :']),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
)


@given(_json, st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
def test_encoded_values_have_no_duplicate_fields(value: Any, separators: tuple[str, str]) -> None:
    body = json.dumps(value, separators=separators).encode()

    assert repeated(body, count_members(value)) == []


@given(_json)
def test_arbitrary_value_is_valid_or_a_schema_mismatch(value: Any) -> None:
    shape = shapes.of(POD, "Pod", "k8s.io")
    assert shape is not None
    obj = {"spec": {"containers": [value]}, "metadata": value, "status": {"conditions": value}}
    try:
        check(obj, shape)
    except SchemaMismatch as error:
        assert "cannot" in str(error) or "quantities" in str(error)


@pytest.mark.parametrize(("text", "kept"), [("Vm\nFs", "VmFs"), ("Vg=\r\n=", "Vg=="), ("Vn==", "Vg==")])
def test_bytes_are_normalized_to_canonical_base64(text: str, kept: str) -> None:
    secret, _ = checked({"data": {"k": text}}, "v1", "Secret")

    assert secret["data"] == {"k": kept}


def test_invalid_base64_is_reported_with_its_offset() -> None:
    with pytest.raises(SchemaMismatch) as raised:
        checked({"data": {"k": "VmFs="}}, "v1", "Secret")

    assert str(raised.value) == "illegal base64 data at input byte 4"
    assert raised.value.converting == "error decoding from json: illegal base64 data at input byte 4"


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"nodeName": 5}, "cannot convert int64 to string"),
        ({"nodeName": ["a"]}, "unrecognized type: string"),
        ({"priority": 5.5}, "cannot convert float64 to int32"),
        ({"priority": "a"}, "unrecognized type: int32"),
        ({"containers": "a"}, "cannot restore slice from string"),
        ({"nodeSelector": 5}, "cannot restore map from int64"),
        ({"securityContext": True}, "cannot restore struct from: bool"),
    ],
)
def test_wrong_type_in_a_tree_of_values_has_its_message(obj: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaMismatch) as raised:
        checked({"spec": obj}, POD, "Pod")

    assert raised.value.converting == message


def test_numbers_of_a_tree_of_values_are_converted() -> None:
    shape = shapes.of(POD, "Pod", "k8s.io")
    assert shape is not None
    pod = {"spec": {"priority": 5.0, "activeDeadlineSeconds": 1 << 40}}

    check(pod, shape, converts=True)

    assert pod == {"spec": {"priority": 5, "activeDeadlineSeconds": 1 << 40}}


def test_nulls_in_lists_and_maps_are_zero_values() -> None:
    pod, _ = checked({"spec": {"containers": [None, {"command": [None]}]}}, POD, "Pod")
    secret, _ = checked({"data": {"k": None}}, "v1", "Secret")

    assert pod == {"spec": {"containers": [{}, {"command": [""]}]}}
    assert secret == {"data": {"k": ""}}


def test_zero_time_is_null_except_for_a_deletion() -> None:
    zero = "0001-01-01T00:00:00Z"
    metadata = {"creationTimestamp": zero, "deletionTimestamp": zero}
    node, _ = checked({"metadata": metadata, "spec": {"taints": [{"timeAdded": zero}]}}, "v1", "Node")

    assert node["metadata"] == {"creationTimestamp": None, "deletionTimestamp": zero}
    assert node["spec"] == {"taints": [{"timeAdded": None}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"resources": {"limits": 5}}]}, "resources.limits of type v1.ResourceList"),
        ({"nodeSelector": 5}, "PodSpec.spec.nodeSelector of type map[string]string"),
        ({"priority": -(1 << 31) - 1}, "number -2147483649 into Go struct field PodSpec.spec.priority of type int32"),
        ({"priority": 1 << 31}, "number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
        ({"priority": -(1 << 31)}, ""),
        ({"priority": (1 << 31) - 1}, ""),
        ({"terminationGracePeriodSeconds": -(1 << 63)}, ""),
        ({"terminationGracePeriodSeconds": (1 << 63) - 1}, ""),
        ({"terminationGracePeriodSeconds": 1 << 63}, "number 9223372036854775808 into"),
        ({"hostNetwork": "yes"}, "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"hostNetwork": None, "priority": None, "nodeSelector": None, "tolerations": None}, ""),
        ({"nodeSelector": {"a": None}}, ""),
        ({"containers": [{"resources": {"limits": {"cpu": None}}}]}, ""),
    ],
)
def test_values_of_pods_have_the_types_of_their_fields(spec: Any, expected: str) -> None:
    found = ""

    try:
        checked({"spec": spec}, POD, "Pod")
    except SchemaMismatch as error:
        found = str(error)

    assert expected in found
    assert bool(found) == bool(expected)


def test_null_values_of_maps_are_zero() -> None:
    obj = {"spec": {"nodeSelector": {"a": None}, "containers": [{"resources": {"limits": {"cpu": None}}}]}}

    found, unknown = checked(obj, POD, "Pod")

    assert (found["spec"]["nodeSelector"], unknown) == ({"a": ""}, [])
    assert found["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "0"}


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (-(1 << 31), True),
        (-(1 << 31) - 1, False),
        ((1 << 31) - 1, True),
        (1 << 31, False),
        ("1 << 31", True),
        (True, False),
        (1.5, False),
    ],
)
def test_number_or_text_has_the_range_of_int32(value: Any, valid: bool) -> None:
    obj = {"spec": {"ports": [{"port": 1, "targetPort": value}]}}
    if valid:
        checked(obj, POD, "Service")
    else:
        with pytest.raises(SchemaMismatch):
            checked(obj, POD, "Service")
