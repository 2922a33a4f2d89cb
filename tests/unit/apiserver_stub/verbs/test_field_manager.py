"""Tests of the fields that a request owns in a new object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.verbs.field_manager import track_action, track_create
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.api import Api, Object, Response, config_map


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


MAPS, APPLY = "/api/v1/namespaces/default/configmaps", "application/apply-patch+yaml"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def fields_of(obj: Object, manager: str = "m") -> Any:
    """Return the fields that *manager* owns."""
    return next(entry["fieldsV1"] for entry in obj["metadata"]["managedFields"] if entry["manager"] == manager)


async def test_parts_of_fields_are_owned_in_each_new_object() -> None:
    api = Api()
    created = []
    for name in "ab":
        obj = config_map(name, {name: "1"})
        obj["metadata"] |= {"finalizers": [f"example.com/{name}"], "labels": {"x": "y"}}
        obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name}]
        created.append(await api.create(f"{MAPS}?fieldManager=m", obj))
    plain = [await api.create(f"{MAPS}?fieldManager=m", config_map(f"{name}2", {name: "1"})) for name in "ab"]

    for name, obj in zip("ab", created, strict=True):
        metadata = fields_of(obj)["f:metadata"]
        assert list(metadata["f:finalizers"]) == [".", f'v:"example.com/{name}"']
        assert list(metadata["f:ownerReferences"]) == [".", f'k:{{"uid":"{name}"}}']
    assert [list(fields_of(obj)["f:data"]) for obj in (*created, *plain)] == [[".", f"f:{name}"] for name in "abab"]


async def test_owners_of_flat_objects_are_those_of_their_metadata() -> None:
    api, events = Api(), "/api/v1/namespaces/default/events?fieldManager=m"
    owned = []
    for name in "ab":
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name}
        metadata = {"name": name, "namespace": "default", "finalizers": [f"x/{name}"], "ownerReferences": [owner]}
        created = await api.create(events, {"metadata": metadata, "involvedObject": {"namespace": "default"}})
        owned.append(fields_of(created)["f:metadata"])

    assert [list(item["f:finalizers"])[1] for item in owned] == ['v:"x/a"', 'v:"x/b"']
    assert [list(item["f:ownerReferences"])[1] for item in owned] == ['k:{"uid":"a"}', 'k:{"uid":"b"}']


async def test_owners_that_the_client_sends_keep_other_fields() -> None:
    entry = {"manager": "other", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entry |= {"time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:reason": {}, "f:series": {}}}
    metadata = {"name": "e", "namespace": "default", "managedFields": [entry]}
    event = {"metadata": metadata, "involvedObject": {"namespace": "default"}, "reason": "R", "message": "M"}

    created = await Api().create("/api/v1/namespaces/default/events?fieldManager=m", event)

    assert (fields_of(created, "other"), "f:reason" in fields_of(created)) == ({"f:series": {}}, True)


async def applied(api: Api, data: Object, manager: str, path: str = f"{MAPS}/a", **more: Any) -> Response:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data, **more}
    return await api.request("PATCH", f"{path}?fieldManager={manager}", obj, content_type=APPLY)


async def test_fields_without_an_owner_are_those_of_before_first_apply() -> None:
    api = Api()
    created = await api.create(f"{MAPS}?fieldManager=m", config_map("a", {"k": "1", "l": "2"}))
    await api.request("PUT", f"{MAPS}/a", {**created, "metadata": {**created["metadata"], "managedFields": [{}]}})

    conflict = await applied(api, {"k": "3"}, "n")
    same = await applied(api, {"k": "1"}, "n")

    assert (conflict.code, 'conflict with "before-first-apply"' in conflict.message) == (409, True)
    assert sorted(entry["manager"] for entry in same.obj["metadata"]["managedFields"]) == ["before-first-apply", "n"]


@pytest.mark.parametrize(
    ("manager", "annotation", "data", "code"),
    [
        ("kubectl", {"k": "1"}, {"k": "3"}, 200),
        ("kubectl", {"k": "9"}, {"k": "3"}, 409),
        ("kubectl", {"l": "2"}, {"k": "3"}, 409),
        ("kubectl", None, {"k": "3"}, 409),
        ("n", {"k": "1"}, {"k": "3"}, 409),
        ("n", {"k": "1"}, {"k": "1"}, 200),
    ],
)
async def test_kubectl_applies_undisputed_fields_of_its_annotation(
    manager: str, annotation: Object | None, data: Object, code: int
) -> None:
    api = Api()
    obj = config_map("a", {"k": "1", "l": "2"})
    before = ""
    if annotation is not None:
        before = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": annotation})
        obj["metadata"]["annotations"] = {ANNOTATION: before}
    await api.create(f"{MAPS}?fieldManager=kubectl-client-side-apply", obj)

    response = await applied(api, data, manager)

    assert response.code == code, response.body
    if code == 200:
        after = response.obj["metadata"]["annotations"][ANNOTATION]
        assert (json.loads(after)["data"] == data) is (manager == "kubectl") or data == annotation
        assert (after == before) is (manager != "kubectl")


async def test_status_is_not_owned_by_writes_of_the_object() -> None:
    api, path = Api(), "/apis/apps/v1/namespaces/default/deployments/a"
    template = DEPLOYMENT["template"]
    spec = {"selector": DEPLOYMENT["selector"], "template": template}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    sent = {**obj, "status": {"replicas": 1}}

    created = await api.request("PATCH", f"{path}?fieldManager=m", sent, content_type=APPLY)
    written = await api.request("PATCH", f"{path}/status?fieldManager=n", sent, content_type=APPLY)

    assert (created.code, written.code) == (201, 200), written.body
    assert set(fields_of(created.obj)) == {"f:spec"}
    assert set(fields_of(written.obj, "n")) == {"f:status"}


@pytest.mark.parametrize(("version", "managers"), [("authentication.k8s.io/v1", ["m"]), ("example.com/v1", [])])
def test_action_is_owned_by_its_sender(version: str, managers: list[str]) -> None:
    info = RequestInfo("create", "/", "", "v1", "serviceaccounts", "token", "d", "a")
    request = Request("POST", info, Query("fieldManager=m"), {}, b"", User("u"), PLAIN, Identity())
    (resource,) = (item for item in build_registry(Options()) if item.plural == "serviceaccounts")
    obj: Object = {"kind": "TokenRequest", "apiVersion": version, "metadata": {}, "spec": {"audiences": ["a"]}}

    track_action(request, resource, obj)

    entries = obj["metadata"].get("managedFields") or []
    assert [entry["manager"] for entry in entries] == managers
    assert all((entry["apiVersion"], entry["subresource"]) == (version, "token") for entry in entries)
