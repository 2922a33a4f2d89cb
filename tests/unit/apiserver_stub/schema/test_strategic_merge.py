"""Tests for strategic merge patches: list keys and directives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.schema import shapes
from apiserver_stub.schema.shapes import Shape
from apiserver_stub.schema.strategic_merge import apply_strategic_patch


def shape_of(api_version: str, kind: str) -> Shape:
    found = shapes.of(api_version, kind, "k8s.io")
    assert found is not None
    return found


POD, NODE, SERVICE = (shape_of("v1", kind) for kind in ("Pod", "Node", "Service"))
BUDGET = shape_of("policy/v1", "PodDisruptionBudget")

PODS: dict[str, Any] = {
    "metadata": {"finalizers": ["a/1", "b/2"]},
    "spec": {
        "containers": [
            {"name": "one", "image": "i:1", "env": [{"name": "A", "value": "1"}]},
            {"name": "two", "image": "i:2"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "x"}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]},
}


def patched(patch: Any, shape: Shape = POD, document: Any = None) -> Any:
    original = PODS if document is None else document
    before = copy.deepcopy(original)
    result = apply_strategic_patch(original, patch, shape)
    assert original == before
    return result


def test_replaced_field_keeps_no_previous_content() -> None:
    old = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}

    result = patched({"spec": {"selector": {"matchLabels": {"tier": "b"}}}}, BUDGET, old)

    assert result == {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"tier": "b"}}}}


def test_lists_are_merged_by_key() -> None:
    result = patched({"spec": {"containers": [{"name": "one", "env": [{"name": "B", "value": "2"}]}]}})

    assert result["spec"]["containers"][0] == {
        "name": "one",
        "image": "i:1",
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
    }
    assert result["spec"]["containers"][1] == PODS["spec"]["containers"][1]


def test_condition_is_replaced_at_its_position() -> None:
    result = patched({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    assert result["status"]["conditions"] == [
        {"type": "Ready", "status": "True"},
        {"type": "Initialized", "status": "True"},
    ]


def test_lists_without_a_key_are_replaced() -> None:
    assert patched({"spec": {"tolerations": [{"key": "y"}]}})["spec"]["tolerations"] == [{"key": "y"}]


def test_lists_of_scalars_are_merged_as_sets() -> None:
    result = patched({"metadata": {"finalizers": ["b/2", "c/3"]}})

    assert result["metadata"]["finalizers"] == ["a/1", "b/2", "c/3"]


def test_null_removes_a_field() -> None:
    assert "volumes" not in patched({"spec": {"volumes": None}})["spec"]


def test_delete_directive_removes_an_item() -> None:
    result = patched({"spec": {"containers": [{"name": "two", "$patch": "delete"}]}})

    assert [item["name"] for item in result["spec"]["containers"]] == ["one"]


def test_replace_directive_replaces_list_or_object() -> None:
    listed = patched({"spec": {"containers": [{"name": "new"}, {"$patch": "replace"}]}})
    whole = patched({"status": {"$patch": "replace", "phase": "Failed"}})

    assert listed["spec"]["containers"] == [{"name": "new"}]
    assert whole["status"] == {"phase": "Failed"}


def test_retain_keys_drops_other_fields() -> None:
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}

    assert patched(patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_set_element_order_follows_the_client() -> None:
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "Initialized"}, {"type": "Ready"}, {"type": "New"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}],
        }
    }

    result = patched(patch)

    assert [item["type"] for item in result["status"]["conditions"]] == ["Initialized", "Ready", "New"]


def test_set_element_order_keeps_items_of_the_server() -> None:
    patch = {"status": {"$setElementOrder/conditions": [{"type": "Ready"}], "conditions": [{"type": "Ready"}]}}

    assert {item["type"] for item in patched(patch)["status"]["conditions"]} == {"Ready", "Initialized"}


def test_delete_from_primitive_list() -> None:
    result = patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1"]}})

    assert result["metadata"]["finalizers"] == ["b/2"]


def test_taints_of_a_node_are_atomic() -> None:
    node = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}

    result = patched({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, NODE, node)

    assert result["spec"]["taints"] == [{"key": "b", "effect": "NoExecute"}]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ([], 400, "error decoding patch: json: cannot unmarshal array"),
        ({"spec": {"$patch": "frob"}}, 500, "unknown patch type: frob in map: map[$patch:frob]"),
        ({"spec": {"$patch": "merge"}}, 500, "unknown patch type: merge in map: map[$patch:merge]"),
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        ({"spec": {"containers": ["text"]}}, 500, "list element types are not identical: [[map["),
        (
            {"spec": {"containers": [{"name": "one", "$patch": "merge"}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["volumes"], "containers": []}}, 400, "invalid patch format of retainKeys"),
        ({"metadata": {"finalizers": [["x"]]}}, 500, "list element types are not identical: [[a/1 b/2] [[x]]]"),
        ({"metadata": {"$setElementOrder/finalizers": "x"}}, 500, "expected a []interface {}, but received a string"),
        (
            {"status": {"$setElementOrder/conditions": [{"type": "A"}], "conditions": [{"type": "B"}]}},
            500,
            "The order in patch list:\n[map[type:B]]\n doesn't match $setElementOrder list:\n[map[type:A]]\n",
        ),
    ],
)
def test_invalid_patch_has_the_error_of_upstream(patch: Any, code: int, message: str) -> None:
    with pytest.raises(ApiError) as error:
        patched(patch)

    assert error.value.code == code
    assert error.value.message.startswith(message)


def ports(*numbers: int) -> list[dict[str, Any]]:
    return [{"port": number} for number in numbers]


@pytest.mark.parametrize(
    ("live", "patch", "merged"),
    [
        ([80], [81], [81, 80]),
        ([80, 82], [81, 82], [81, 80, 82]),
        ([80, 81], [81], [80, 81]),
        ([80, 81], [81, 80], [81, 80]),
        ([1, 2, 3], [4, 2], [4, 1, 2, 3]),
        ([1, 2, 3], [3, 4], [1, 2, 3, 4]),
        ([1, 2, 3], [4], [4, 1, 2, 3]),
    ],
)
def test_merged_list_has_the_order_of_upstream(live: list[int], patch: list[int], merged: list[int]) -> None:
    document = {"spec": {"ports": ports(*live)}}

    assert patched({"spec": {"ports": ports(*patch)}}, SERVICE, document) == {"spec": {"ports": ports(*merged)}}


@pytest.mark.parametrize(
    ("live", "added", "deleted", "order", "merged"),
    [
        ([1, 2, 3], [], [], [3, 1], [2, 3, 1]),
        ([1, 2, 3], [4], [], [4, 2], [4, 1, 2, 3]),
        ([1, 2, 3], [4], [2], [4], [1, 3, 4]),
        ([1, 2], [3], [1], [3], [2, 3]),
        ([1, 2, 3], [], [2], [3, 1], [3, 1]),
        ([1], [3, 2], [1], [3, 2], [3, 2]),
        ([], [2, 1], [], [2, 1], [2, 1]),
    ],
)
def test_ordered_list_has_the_order_of_upstream(
    live: list[int], added: list[int], deleted: list[int], order: list[int], merged: list[int]
) -> None:
    document = {"spec": {"ports": ports(*live)} if live else {}}
    items = ports(*added) + [{"port": number, "$patch": "delete"} for number in deleted]
    patch: dict[str, Any] = {"$setElementOrder/ports": ports(*order)} | ({"ports": items} if items else {})

    assert patched({"spec": patch}, SERVICE, document) == {"spec": {"ports": ports(*merged)}}


def test_new_list_is_taken_without_nulls_and_directives() -> None:
    patch = {"spec": {"hostAliases": [{"ip": "::1", "hostnames": None}, {"ip": "::2", "$patch": "delete"}]}}

    assert patched(patch)["spec"]["hostAliases"] == [{"ip": "::1"}]


def test_host_ips_merge_when_patched() -> None:
    status = {"status": {"hostIPs": [{"ip": "::1"}]}}

    assert patched({"status": {"hostIPs": [{"ip": "::2"}]}}, POD, status) == {
        "status": {"hostIPs": [{"ip": "::2"}, {"ip": "::1"}]}
    }


@given(
    st.lists(st.sampled_from("abcd"), unique=True),
    st.lists(st.sampled_from("abcd"), unique=True, min_size=1),
)
def test_patch_adds_items_without_losing_others(have: list[str], given_: list[str]) -> None:
    document = {"status": {"conditions": [{"type": name, "status": "old"} for name in have]}}
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": name} for name in given_],
            "conditions": [{"type": name, "status": "new"} for name in given_],
        }
    }

    result = apply_strategic_patch(document, patch, POD)["status"]["conditions"]

    assert {item["type"] for item in result} == set(have) | set(given_)
    assert [item["type"] for item in result if item["type"] in given_] == given_
    assert all(item["status"] == ("new" if item["type"] in given_ else "old") for item in result)


_words = st.sampled_from(["a", "b", "$patch", "$retainKeys", "type", "name", "delete", "replace", "merge"])
_members = st.sampled_from(
    [
        "conditions",
        "containers",
        "finalizers",
        "metadata",
        "spec",
        "status",
        "type",
        "name",
        "$patch",
        "$retainKeys",
        "$setElementOrder/conditions",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
    ]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | _words,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_members, below, max_size=4),
    max_leaves=12,
)


@given(_values, _values)
def test_arbitrary_patch_does_not_modify_the_original(document: Any, patch: Any) -> None:
    before = copy.deepcopy(document)

    try:
        result = apply_strategic_patch(document, patch, POD)
    except ApiError as error:
        assert error.code in (400, 422, 500)
    else:
        assert isinstance(result, dict)

    assert document == before


_conditions = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from("abcd")}, optional={"status": st.sampled_from(["True", "False"])}),
    unique_by=lambda item: item["type"],
)
_pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"finalizers": st.lists(st.sampled_from("xyz"), unique=True)}),
        "status": st.fixed_dictionaries({}, optional={"conditions": _conditions, "phase": st.sampled_from("pq")}),
    },
)


@given(_pods, _pods)
def test_patch_is_idempotent(document: Any, patch: Any) -> None:
    once = apply_strategic_patch(document, patch, POD)

    assert apply_strategic_patch(once, patch, POD) == once


@given(_pods)
def test_object_patched_with_itself_is_unchanged(document: Any) -> None:
    assert apply_strategic_patch(document, document, POD) == document
