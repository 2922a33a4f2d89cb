"""Tests for patches: their types, errors, and the kind and API version of patched objects."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds import Registry
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.schema.structural.schema import StructuralSchema
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.verbs.patch import restore_type
from tests.unit.apiserver_stub.api import Api, config_map
from tests.unit.apiserver_stub.kinds.test_custom_resources import established

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"


def custom() -> Resource:
    return Resource("g", "v1", "W", "ws", schema=StructuralSchema("W", tree_of({"type": "object"})))


@pytest.mark.parametrize("new", [{"apiVersion": "W"}, {"apiVersion": "g/v1", "kind": ""}, {"metadata": {}}])
def test_custom_kind_removed_by_a_patch_is_rejected(new: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, new)

    assert (error.value.code, error.value.reason) == (422, "Invalid")
    assert "Object 'Kind' is missing in" in error.value.message


@pytest.mark.parametrize(("name", "value", "go_type"), [("kind", 5, "number"), ("apiVersion", ["g/v1"], "array")])
def test_patch_that_sets_no_text_as_custom_kind_is_rejected(name: str, value: Any, go_type: str) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, {"apiVersion": "g/v1", "kind": "W", name: value}, "status")

    assert error.value.code == 422
    assert f"cannot unmarshal {go_type} into Go struct field .{name} of type string" in error.value.message


@pytest.mark.parametrize(
    ("media_type", "new", "code"),
    [(MERGE_PATCH, {}, 500), (JSON_PATCH, {"apiVersion": None}, 422)],
)
def test_api_version_removed_by_a_patch_of_a_custom_kind_is_an_error(
    media_type: str, new: dict[str, Any], code: int
) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), media_type, {"kind": "W", **new})

    assert error.value.code == code


@pytest.mark.parametrize("new", [{"apiVersion": "g/v1", "kind": "X"}, {"apiVersion": "g/v2", "kind": "W"}])
def test_other_custom_kind_is_accepted_in_patches_of_the_status(new: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, dict(new))
    restore_type(custom(), JSON_PATCH, new, "status")

    assert error.value.code == 422
    assert (new["apiVersion"], new["kind"]) == ("g/v1", "W")


def test_kind_and_version_removed_by_a_patch_are_restored() -> None:
    new: dict[str, Any] = {"metadata": {"name": "m"}}

    restore_type(Resource("", "v1", "ConfigMap", "configmaps"), JSON_PATCH, new)

    assert (new["apiVersion"], new["kind"]) == ("v1", "ConfigMap")


MAPS = "/api/v1/namespaces/default/configmaps"
STRATEGIC = "application/strategic-merge-patch+json"


async def test_patches_change_the_object_by_their_type() -> None:
    api = Api()
    await api.create(MAPS, config_map("a", {"x": "1", "y": "2"}))
    for content_type, body, data in (
        (JSON_PATCH, [{"op": "replace", "path": "/data/x", "value": "3"}], {"x": "3", "y": "2"}),
        (MERGE_PATCH, {"data": {"x": None}}, {"y": "2"}),
        (STRATEGIC, {"data": {"z": "4"}}, {"y": "2", "z": "4"}),
        (STRATEGIC, b"null", {"y": "2", "z": "4"}),
        (f"{MERGE_PATCH}; charset=utf-8", {"data": {"y": None}}, {"z": "4"}),
    ):
        response = await api.request("PATCH", f"{MAPS}/a", body, content_type=content_type)
        assert (response.code, response.obj.get("data")) == (200, data), (content_type, body, response.body)
    before = api.store.writes
    dry = await api.request("PATCH", f"{MAPS}/a?dryRun=All", {"data": {"a": "b"}}, content_type=MERGE_PATCH)
    assert (dry.obj["data"], api.store.writes) == ({"a": "b", "z": "4"}, before)


async def test_unusable_patches_are_rejected() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    operation = {"op": "add", "path": "/data", "value": {}}
    strict = "a?fieldValidation=Strict"
    for target, content_type, body, code, message in (
        ("a", MERGE_PATCH, b"{", 400, "error decoding patch: unexpected end of JSON input"),
        ("a", MERGE_PATCH, b"{x", 400, "error decoding patch: "),
        ("a", MERGE_PATCH, [1], 400, "cannot unmarshal array into Go value of type map[string]interface {}"),
        ("b", MERGE_PATCH, {}, 404, 'configmaps "b" not found'),
        ("a", MERGE_PATCH, {"metadata": {"name": None}}, 400, "was undeterminable"),
        ("a", MERGE_PATCH, {"metadata": {"name": "b"}}, 400, "does not match the name on the URL"),
        ("a", MERGE_PATCH, {"metadata": {"namespace": "b"}}, 400, "does not match the namespace"),
        ("a", MERGE_PATCH, {"kind": "Pod"}, 422, 'no kind "Pod" is registered for version "v1"'),
        ("a", MERGE_PATCH, {"data": 5}, 422, "cannot unmarshal number into Go struct field ConfigMap.data"),
        ("a", STRATEGIC, {"data": 5}, 422, "map["),
        (strict, MERGE_PATCH, {"unknown": 1}, 422, 'strict decoding error: unknown field "unknown"'),
        (strict, STRATEGIC, {"unknown": 1}, 422, 'strict decoding error: unknown field "unknown"'),
        (strict, JSON_PATCH, [{**operation, "x": 1}], 422, 'json patch unknown field "[0].x"'),
        (strict, JSON_PATCH, b'[{"op":"add","op":"add","path":"/data","value":{}}]', 422, "json patch duplicate field"),
        (strict, JSON_PATCH, [operation], 200, ""),
        ("a?fieldValidation=Ignore", MERGE_PATCH, {"unknown": 1}, 200, ""),
    ):
        response = await api.request("PATCH", f"{MAPS}/{target}", body, content_type=content_type)
        assert (response.code, message in response.message) == (code, True), (target, body, response.body)
    warned = await api.request("PATCH", f"{MAPS}/a?fieldValidation=Warn", {"unknown": 1}, content_type=MERGE_PATCH)
    assert warned.warnings == ['unknown field \\"unknown\\"']


async def test_patch_of_the_uid_is_rejected_as_immutable() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    response = await api.request("PATCH", f"{MAPS}/a", {"metadata": {"uid": "x"}}, content_type=MERGE_PATCH)
    assert (response.code, "metadata.uid: Invalid value" in response.message) == (422, True)


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
JSON_PATCH, MERGE, STRATEGIC = (f"application/{name}-patch+json" for name in ("json", "merge", "strategic-merge"))


@pytest.mark.parametrize(
    ("content_type", "patch", "code", "message"),
    [
        (MERGE, {"spec": {"size": 2}}, 200, ""),
        (JSON_PATCH, [{"op": "add", "path": "/spec/size", "value": 2}], 200, ""),
        (STRATEGIC, {"spec": {"size": 2}}, 415, "the body of the request was in an unknown format - accepted media"),
        (MERGE, {"kind": None}, 422, "Object 'Kind' is missing in"),
        (MERGE, {"apiVersion": None}, 500, "Object 'apiVersion' is missing in 'object has no apiVersion field'"),
        (JSON_PATCH, [{"op": "remove", "path": "/apiVersion"}], 200, ""),
    ],
)
async def test_patched_custom_object_states_its_kind(content_type: str, patch: Any, code: int, message: str) -> None:
    api = Api(registry=Registry(resources_of(established())))
    head = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}}
    await api.create(WIDGETS, {**head, "spec": {"size": 1}})

    response = await api.request("PATCH", f"{WIDGETS}/w", patch, content_type=content_type)

    assert response.code == code, response.body
    assert message in response.message


async def test_error_of_a_patch_shows_the_patch_or_its_result() -> None:
    api = Api()
    path = "/api/v1/namespaces/default/configmaps"
    await api.create(path, config_map("a"))

    strategic = await api.request("PATCH", f"{path}/a", {"data": {"a": 1}}, content_type=STRATEGIC)
    merged = await api.request("PATCH", f"{path}/a", {"data": {"a": 1}}, content_type=MERGE)

    assert (strategic.code, merged.code) == (422, 422)
    assert 'Invalid value: "map[data:map[a:1]]"' in strategic.message
    assert '{"kind":"ConfigMap","apiVersion":"v1",' in merged.message.replace("\\", "")


@pytest.mark.parametrize(
    ("content_type", "patch", "shown"),
    [
        (STRATEGIC, {"data": {"a": 1}}, "map[data:map[a:1]]"),
        (MERGE, {"data": {"a": 1}}, '"data":{"b":"c","a":1}'),
        (JSON_PATCH, [{"op": "add", "path": "/data/a", "value": 1}], '"data":{"b":"c","a":1}'),
        (STRATEGIC, {"x": "y"}, "map[x:y]"),
        (MERGE, {"x": "y"}, '"data":{"b":"c"},"x":"y"'),
        (JSON_PATCH, [{"op": "add", "path": "/x", "value": "y"}], '"data":{"b":"c"},"x":"y"'),
    ],
)
async def test_error_shows_a_strategic_patch_or_the_result_of_others(content_type: str, patch: Any, shown: str) -> None:
    api = Api()
    await api.create(MAPS, config_map("a", {"b": "c"}))

    response = await api.request("PATCH", f"{MAPS}/a?fieldValidation=Strict", patch, content_type=content_type)

    message = response.message.replace("\\", "")
    assert (response.code, shown in message) == (422, True), message
    assert ('"kind":"ConfigMap"' in message) is (content_type != STRATEGIC)


@pytest.mark.parametrize(("content_type", "code", "stored"), [(STRATEGIC, 200, 1), (MERGE, 422, None)])
async def test_only_strategic_patches_truncate_integers(content_type: str, code: int, stored: int | None) -> None:
    api, leases = Api(), "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await api.create(leases, {"metadata": {"name": "a"}, "spec": {"leaseTransitions": 0}})

    patch = {"spec": {"leaseTransitions": (1 << 32) + 1}}
    response = await api.request("PATCH", f"{leases}/a", patch, content_type=content_type)

    assert response.code == code, response.body
    assert stored is None or response.obj["spec"]["leaseTransitions"] == stored
