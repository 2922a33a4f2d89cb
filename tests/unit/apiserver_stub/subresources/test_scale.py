"""Tests for the scale subresource: objects that were stored before their definition had a scale."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource, ScalePaths
from apiserver_stub.subresources.scale import projection_of
from tests.unit.apiserver_stub.api import Api

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", scale=ScalePaths())
METADATA = {"name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"spec": []},
            ".spec.replicas accessor error: [] is of the type []interface {}, expected map[string]interface{}",
        ),
        ({"spec": 1.5}, ".spec.replicas accessor error: 1.5 is of the type float64, expected map[string]interface{}"),
        ({"spec": {"replicas": "3"}}, ".spec.replicas accessor error: 3 is of the type string, expected int64"),
        ({"spec": {"replicas": None}}, ".spec.replicas accessor error: <nil> is of the type <nil>, expected int64"),
        ({"status": {"replicas": True}}, ".status.replicas accessor error: true is of the type bool, expected int64"),
    ],
)
def test_field_of_another_type_is_reported(fields: dict[str, Any], message: str) -> None:
    projection, obj = projection_of(WIDGETS), {"metadata": METADATA, **fields}

    for use in (lambda: projection.read(obj), lambda: projection.write({"metadata": {}, "spec": {"replicas": 1}}, obj)):
        with pytest.raises(ApiError) as error:
            use()
        assert (error.value.code, error.value.reason, error.value.message) == (500, "", message)


@pytest.mark.parametrize("fields", [{}, {"status": None}, {"status": {}}])
def test_missing_observed_number_is_zero(fields: dict[str, Any]) -> None:
    scale = projection_of(WIDGETS).read({"metadata": METADATA, "spec": {"replicas": 0}, **fields})

    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0})


def test_replicas_below_null_cannot_be_set() -> None:
    with pytest.raises(ApiError) as error:
        projection_of(WIDGETS).write({"metadata": {}, "spec": {"replicas": 1}}, {"metadata": METADATA, "spec": None})

    message = "value cannot be set because .spec is not a map[string]interface{}"
    assert (error.value.code, error.value.reason, error.value.message) == (500, "", message)


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def deployed(**spec: Any) -> Api:
    api = Api()
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    fields = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, **spec}
    await api.create(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": fields})
    return api


async def test_scale_is_read_updated_and_patched() -> None:
    api = await deployed()
    target = f"{DEPLOYMENTS}/a/scale"
    first = (await api.get(target)).obj
    updated = await api.request("PUT", target, {**first, "spec": {"replicas": 3}})
    patched = await api.request("PATCH", target, {"spec": {"replicas": 4}}, content_type="application/merge-patch+json")
    zero = await api.request("PUT", target, {"metadata": {"name": "a"}, "spec": {}})

    assert (first["kind"], first["spec"], first["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=a")
    assert [response.code for response in (updated, patched, zero)] == [200, 200, 200]
    assert [response.obj["spec"] for response in (updated, patched, zero)] == [{"replicas": 3}, {"replicas": 4}, {}]
    assert (await api.get(f"{DEPLOYMENTS}/a")).obj["spec"]["replicas"] == 0


async def test_invalid_scales_are_rejected() -> None:
    for target, scale, code, message in (
        ("x", None, 404, 'deployments/scale.apps "x" not found'),
        ("a", {"spec": {"replicas": -1}}, 422, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("a", {"spec": {"replicas": 3}, "metadata": {"name": "a", "uid": "x"}}, 409, "UID in precondition: x"),
        ("a", {"spec": {"replicas": 3}, "metadata": {"name": "a", "resourceVersion": "99"}}, 409, "has been modified"),
        ("a", {"spec": {"replicas": -(2**31)}}, 400, "cannot be empty"),
    ):
        api = await deployed()
        body = None if scale is None else {"metadata": {"name": "a"}, **scale}
        response = await api.request("GET" if scale is None else "PUT", f"{DEPLOYMENTS}/{target}/scale", body)
        assert (response.code, message in response.message) == (code, True), (target, scale, response.body)


async def test_scale_of_an_object_without_the_field_does_not_exist() -> None:
    api = await deployed()
    stored = api.store.read("apps/deployments", "default/a")
    del stored["spec"]["replicas"]
    api.store.put("apps/deployments", stored)

    response = await api.get(f"{DEPLOYMENTS}/a/scale")

    assert response.code == 500
    assert 'the spec replicas field ".spec.replicas" does not exist' in response.message
