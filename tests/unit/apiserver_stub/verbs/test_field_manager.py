"""Tests of the fields that a request owns in a new object."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.verbs.field_manager import track_create
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.api import Api


@pytest.mark.parametrize("first", [[], None])
def test_empty_list_is_owned_and_null_is_not(first: object) -> None:
    info = RequestInfo("create", "/", "discovery.k8s.io", "v1", "endpointslices", namespace="d")
    request = Request("POST", info, Query(""), {}, b"", User("u"), PLAIN, Identity())
    (resource,) = (item for item in build_registry(Options()) if item.plural == "endpointslices")

    owned = {}
    for endpoints in (first, None if first == [] else []):
        obj: dict[str, Any] = {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"name": "a"},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": None,
        }
        track_create(request, resource, obj)
        owned[str(endpoints)] = b"f:endpoints" in bytes(obj["metadata"]["managedFields"][0]["fieldsV1"])

    assert owned == {"[]": True, "None": False}


PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(("subresource", "is_cleared"), [("", True), ("/status", False)])
async def test_owners_are_cleared_only_by_writes_of_the_object(subresource: str, *, is_cleared: bool) -> None:
    api = Api()
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    created = await api.create(f"{PODS}?fieldManager=m", pod)
    assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == ["m"]
    cleared = {**created, "metadata": {**created["metadata"], "managedFields": [{}]}}

    found = (await api.request("PUT", f"{PODS}/p{subresource}?fieldManager=n", cleared)).obj

    assert ("m" in [entry["manager"] for entry in found["metadata"].get("managedFields") or ()]) is not is_cleared


@pytest.mark.parametrize(
    ("name", "shown"), [("m" * 128, "m" * 128), ("m" * 129, "m" * 128), ("é" * 65, "é" * 64), ("", "unknown")]
)
async def test_manager_is_the_start_of_the_user_agent(name: str, shown: str) -> None:
    created = await Api().create(
        "/apis/apps/v1/namespaces/default/deployments",
        {"metadata": {"name": "d"}, "spec": DEPLOYMENT},
        User_Agent=f"{name}/v1 (linux)",
    )

    assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == [shown]


DEPLOYMENT = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
}


async def test_fields_of_flat_objects_are_owned_by_their_creator() -> None:
    api, owned = Api(), []
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    for number, fields in enumerate(({"reason": "R"}, {"reason": "", "count": 0}, {"count": 1})):
        event = {"metadata": {"name": f"e{number}", "namespace": "default"}, "involvedObject": involved, **fields}
        created = await api.create("/api/v1/namespaces/default/events?fieldManager=m", event)
        owned.append(sorted(created["metadata"]["managedFields"][0]["fieldsV1"]))

    assert owned == [["f:involvedObject", "f:reason"], ["f:involvedObject"], ["f:count", "f:involvedObject"]]
