"""Tests for server-side apply: creation, owners of fields, conflicts and rejected configurations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.kinds import Registry
from apiserver_stub.kinds.custom_resources import resources_of
from tests.unit.apiserver_stub.api import Api, Object, Response
from tests.unit.apiserver_stub.kinds.test_custom_resources import established, version, widget

MAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/apply-patch+yaml"


def config(name: str = "a", data: Any = None, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


async def apply(api: Api, obj: Object, query: str = "fieldManager=m", path: str = "a") -> Response:
    return await api.request("PATCH", f"{MAPS}/{path}?{query}", obj, content_type=YAML)


async def test_apply_creates_then_changes_the_owned_fields() -> None:
    api = Api()
    first = await apply(api, config(data={"a": "1", "b": "2"}))
    second = await apply(api, config(data={"a": "3"}))
    other = await apply(api, config(data={"c": "4"}), "fieldManager=other")
    third = await apply(api, config(data={}))
    codes = [item.code for item in (first, second, other, third)]
    assert codes == [201, 200, 200, 200]
    assert [item.obj.get("data") for item in (first, second, other, third)] == [
        {"a": "1", "b": "2"},
        {"a": "3"},
        {"a": "3", "c": "4"},
        {"c": "4"},
    ]
    managers = [entry["manager"] for entry in other.obj["metadata"]["managedFields"]]
    assert sorted(managers) == ["m", "other"]


async def test_fields_of_others_are_a_conflict_unless_forced() -> None:
    api = Api()
    await apply(api, config(data={"a": "1"}))
    same = await apply(api, config(data={"a": "1"}), "fieldManager=other")
    conflict = await apply(api, config(data={"a": "2"}), "fieldManager=third")
    forced = await apply(api, config(data={"a": "2"}), "fieldManager=third&force=true")
    assert [item.code for item in (same, conflict, forced)] == [200, 409, 200]
    assert conflict.message.startswith("Apply failed with 2 conflicts")
    assert forced.obj["data"] == {"a": "2"}
    assert [entry["manager"] for entry in forced.obj["metadata"]["managedFields"]] == ["third"]


async def test_apply_without_change_or_as_a_dry_run_writes_nothing() -> None:
    api = Api()
    dry = await apply(api, config(), "fieldManager=m&dryRun=All")
    assert (dry.code, api.store.writes) == (201, 0)
    first = await apply(api, config(data={"a": "1"}))
    again = await apply(api, config(data={"a": "1"}))
    dry = await apply(api, config(data={"a": "2"}), "fieldManager=m&dryRun=All")
    assert (again.obj["metadata"]["resourceVersion"], dry.code) == (first.obj["metadata"]["resourceVersion"], 200)
    assert api.store.writes == 1


async def test_invalid_configurations_are_rejected() -> None:
    api = Api()
    stored = await apply(api, config("s"), path="s")
    uid = stored.obj["metadata"]["uid"]
    for title, obj, query, path, code, message in (
        ("no manager", config(), "", "a", 422, "fieldManager: Required value: is required for apply patch"),
        ("another name", config("b"), "fieldManager=m", "a", 400, "the name of the object (b) does not match"),
        ("another namespace", config(namespace="x"), "fieldManager=m", "a", 400, "does not match the namespace"),
        ("stored in another namespace", config("s", namespace="x"), "fieldManager=m", "s", 400, "the namespace"),
        ("another name of a stored one", config("b"), "fieldManager=m", "s", 400, "does not match the name"),
        ("UID without an object", config(uid="x"), "fieldManager=m", "a", 409, "uid mismatch: the provided object"),
        ("invalid version", config(resourceVersion="x"), "fieldManager=m", "a", 500, 'parsing "x"'),
        ("old version", config("s", resourceVersion="9"), "fieldManager=m", "s", 409, "has been modified"),
        ("same UID", config("s", uid=uid), "fieldManager=m", "s", 200, ""),
        ("managed fields", config(managedFields=[{}]), "fieldManager=m", "a", 400, "managedFields must be nil"),
        ("subresource of nothing", config(), "fieldManager=m", "a/status", 404, ""),
    ):
        response = await apply(api, obj, query, path)
        assert (response.code, message in response.message) == (code, True), (title, response.body)


async def test_force_is_for_apply_only() -> None:
    api = Api()
    await apply(api, config())
    for query, content_type, code in (
        ("force=true", "application/merge-patch+json", 422),
        ("force=false", "application/merge-patch+json", 200),
        ("", "text/plain", 415),
    ):
        response = await api.request("PATCH", f"{MAPS}/a?{query}", {}, content_type=content_type)
        assert response.code == code, (query, content_type)


TWICE = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "a": "2"}}'


@pytest.mark.parametrize(
    ("mode", "code", "warnings"),
    [("Ignore", 201, 0), ("Warn", 201, 1), ("", 201, 1), ("Strict", 400, 0)],
)
async def test_fields_that_are_set_twice_are_reported(mode: str, code: int, warnings: int) -> None:
    query = f"fieldManager=m&fieldValidation={mode}" if mode else "fieldManager=m"
    response = await Api().request("PATCH", f"{MAPS}/a?{query}", TWICE, content_type=YAML)

    assert (response.code, len(response.warnings)) == (code, warnings)
    if code == 400:
        assert response.message.startswith("error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal")
    once = await apply(Api(), config(), query)
    assert (once.code, once.warnings) == (201, [])


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1e3", "1000"),
        ("5", "5"),
        ("1.5", ""),
        ("9223372036854775808", "0"),
        ("-9223372036854775808", "0"),
        ("9223372036854775808.0", "0"),
        ("-9223372036854775808.0", "0"),
    ],
)
async def test_integral_numbers_below_2_to_the_63_are_integers(text: str, result: str) -> None:
    spec = f'{{"leaseDurationSeconds": 5, "leaseTransitions": {text}}}'
    lease = f'{{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {{"name": "a"}}, "spec": {spec}}}'
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a?fieldManager=m"

    response = await Api().request("PATCH", path, lease.encode(), content_type=YAML)

    assert response.code == (201 if result else 500), response.body
    assert not result or str(response.obj["spec"]["leaseTransitions"]) == result


async def test_subresource_of_a_missing_object_is_not_applied() -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
    path = "/api/v1/namespaces/default/pods/p/status?fieldManager=m"

    response = await Api().request("PATCH", path, obj, content_type=YAML)

    assert (response.code, response.message) == (404, 'pods "p" not found')


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-9223372036854775808", int),
        ("9223372036854775807", int),
        ("-9223372036854775809", float),
        ("9223372036854775808", float),
        ("9223372036854775808.0", float),
        ("1e3", int),
        ("1.5", float),
    ],
)
async def test_unknown_numbers_beyond_64_bits_are_floats(text: str, kind: type) -> None:
    served = version()
    served["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = True
    path = "/apis/example.com/v1/namespaces/default/widgets/a?fieldManager=m"
    api = Api(registry=Registry(resources_of(established(served))))
    body = json.dumps(widget({"x": 0}, metadata={"name": "a"})).replace('"x": 0', f'"x": {text}')

    response = await api.request("PATCH", path, body.encode(), content_type=YAML)

    assert type(response.obj["spec"]["x"]) is kind


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("-9223372036854775808", -(1 << 63)),
        ("-9223372036854775808.0", -(1 << 63)),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775809", None),
        ("9223372036854775808", None),
        ("9223372036854775808.0", None),
    ],
)
async def test_integers_of_custom_objects_have_64_bits(text: str, size: int | None) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets/a?fieldManager=m"
    api = Api(registry=Registry(resources_of(established())))
    body = json.dumps(widget({"size": 0}, metadata={"name": "a"})).replace('"size": 0', f'"size": {text}')

    response = await api.request("PATCH", path, body.encode(), content_type=YAML)

    assert response.code == (422 if size is None else 201), response.body
    assert size is None or f'"size":{size}}}'.encode() in response.body


@pytest.mark.parametrize(("spec", "code"), [({"replicas": 3}, 200), ({"replicas": "x"}, 500), ({"other": 3}, 500)])
async def test_configuration_of_a_scale_is_validated(spec: Object, code: int) -> None:
    api, path = Api(), "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"a": "b"}}
    await api.create(path, {"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}})
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": spec}

    response = await api.request("PATCH", f"{path}/a/scale?fieldManager=m&force=true", scale, content_type=YAML)

    assert response.code == code, response.body
