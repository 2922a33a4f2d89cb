"""Strategic merge patches merge lists by key and follow their directives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.status import ApiError
from apiserver_stub.strategic import NODE, POD, apply_strategic_patch

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


def patched(patch: Any, schema: Any = POD, document: Any = None) -> Any:
    original = PODS if document is None else document
    before = copy.deepcopy(original)
    result = apply_strategic_patch(original, patch, schema)
    assert original == before
    return result


def test_lists_merge_by_their_key() -> None:
    result = patched({"spec": {"containers": [{"name": "one", "env": [{"name": "B", "value": "2"}]}]}})

    assert result["spec"]["containers"][0] == {
        "name": "one",
        "image": "i:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    }
    assert result["spec"]["containers"][1] == PODS["spec"]["containers"][1]


def test_a_condition_is_replaced_in_its_place() -> None:
    result = patched({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    assert result["status"]["conditions"] == [
        {"type": "Ready", "status": "True"},
        {"type": "Initialized", "status": "True"},
    ]


def test_lists_without_a_key_are_replaced() -> None:
    assert patched({"spec": {"tolerations": [{"key": "y"}]}})["spec"]["tolerations"] == [{"key": "y"}]


def test_set_like_lists_are_united() -> None:
    result = patched({"metadata": {"finalizers": ["b/2", "c/3"]}})

    assert result["metadata"]["finalizers"] == ["a/1", "b/2", "c/3"]


def test_null_removes() -> None:
    assert "volumes" not in patched({"spec": {"volumes": None}})["spec"]


def test_delete_directive_removes_an_item() -> None:
    result = patched({"spec": {"containers": [{"name": "two", "$patch": "delete"}]}})

    assert [item["name"] for item in result["spec"]["containers"]] == ["one"]


def test_replace_directive_replaces_list_or_object() -> None:
    listed = patched({"spec": {"containers": [{"name": "new"}, {"$patch": "replace"}]}})
    whole = patched({"status": {"$patch": "replace", "phase": "Failed"}})

    assert listed["spec"]["containers"] == [{"name": "new"}]
    assert whole["status"] == {"phase": "Failed"}


def test_retain_keys_drops_what_is_not_named() -> None:
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}

    assert patched(patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_element_order_is_kept_as_the_client_has_it() -> None:
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "Initialized"}, {"type": "Ready"}, {"type": "New"}],
            "conditions": [{"type": "New", "status": "True"}, {"type": "Ready", "status": "True"}],
        }
    }

    result = patched(patch)

    assert [item["type"] for item in result["status"]["conditions"]] == ["Initialized", "Ready", "New"]


def test_items_only_the_server_has_survive_an_order() -> None:
    patch = {"status": {"$setElementOrder/conditions": [{"type": "Ready"}], "conditions": [{"type": "Ready"}]}}

    assert {item["type"] for item in patched(patch)["status"]["conditions"]} == {"Ready", "Initialized"}


def test_delete_from_primitive_list() -> None:
    result = patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1"]}})

    assert result["metadata"]["finalizers"] == ["b/2"]


def test_taints_of_a_node_are_one_value() -> None:
    node = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}

    result = patched({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, NODE, node)

    assert result["spec"]["taints"] == [{"key": "b", "effect": "NoExecute"}]


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"spec": {"$patch": "frob"}},
        {"spec": {"containers": [{"image": "no name"}]}},
        {"spec": {"containers": ["text"]}},
        {"spec": {"$retainKeys": "x"}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
    ],
)
def test_nonsense_is_refused(patch: Any) -> None:
    with pytest.raises(ApiError) as error:
        patched(patch)

    assert error.value.code == 400


@given(
    st.lists(st.sampled_from("abcd"), unique=True),
    st.lists(st.sampled_from("abcd"), unique=True),
)
def test_patched_items_are_there_and_none_is_lost(have: list[str], given_: list[str]) -> None:
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
