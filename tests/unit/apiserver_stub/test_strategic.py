"""Strategic merge patches merge lists by key and follow their directives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub import schema
from apiserver_stub.options import parse
from apiserver_stub.resources import build_registry
from apiserver_stub.schema import Form, Shape
from apiserver_stub.status import ApiError
from apiserver_stub.strategic import BUDGET, NODE, POD, Schema, apply_strategic_patch

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


def test_a_member_that_is_replaced_keeps_nothing_of_what_was_there() -> None:
    old = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}

    result = patched({"spec": {"selector": {"matchLabels": {"tier": "b"}}}}, BUDGET, old)

    assert result == {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"tier": "b"}}}}


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
        {"metadata": {"$setElementOrder/finalizers": [[1]]}},
        {"status": {"$setElementOrder/conditions": [{"type": []}]}},
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
def test_any_patch_is_carried_out_or_refused_and_leaves_the_document_alone(document: Any, patch: Any) -> None:
    before = copy.deepcopy(document)

    try:
        result = apply_strategic_patch(document, patch, POD)
    except ApiError as error:
        assert error.code == 400
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
def test_patching_twice_is_patching_once(document: Any, patch: Any) -> None:
    once = apply_strategic_patch(document, patch, POD)

    assert apply_strategic_patch(once, patch, POD) == once


@given(_pods)
def test_a_document_patched_with_itself_stays(document: Any) -> None:
    assert apply_strategic_patch(document, document, POD) == document


def disagreements(shape: Shape, merging: Schema, path: str, above: tuple[int, ...] = ()) -> list[str]:
    """Return the lists that a patch merges otherwise than the published schema says."""
    found: list[str] = []
    if id(shape) in above:
        return found
    for name, member in shape.members.items():
        place, own, inner = f"{path}.{name}", merging.member(name), member
        if member.form is Form.LIST:
            key = member.keys[0] if member.patch_strategy and member.keys else ""
            if (own.merge_key, own.merges) != (key, bool(member.patch_strategy and member.is_set)):
                found.append(place)
        if member.item is not None:
            inner = member.item
        if inner.form is Form.OBJECT:
            found += disagreements(inner, own, place, (*above, id(shape)))
    return found


def test_patches_merge_lists_as_the_published_schema_says() -> None:
    everything = parse(["--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"])

    found = [
        place
        for resource in build_registry(everything)
        if (shape := schema.of(resource.api_version, resource.kind)) is not None
        for place in disagreements(shape, resource.patch_schema, resource.plural)
    ]

    assert found == ["pods.status.hostIPs"]  # merges when patched and is one value when applied
