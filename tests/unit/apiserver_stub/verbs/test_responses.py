"""Tests for representations of objects, lists and errors."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.verbs.responses import render_error
from tests.unit.apiserver_stub.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "v=v1;g=meta.k8s.io"
TABLE = f"application/json;as=Table;{GROUP}"
PARTIAL = f"application/json;as=PartialObjectMetadata;{GROUP}"
PARTIAL_LIST = f"application/json;as=PartialObjectMetadataList;{GROUP}"
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def filled() -> Api:
    api = Api()
    for name in "ab":
        await api.create(MAPS, config_map(name, {"k": name}))
    return api


async def test_representation_is_the_accepted_one() -> None:
    api = await filled()
    for target, accept, kind, version in (
        (f"{MAPS}/a", "application/json", "ConfigMap", "v1"),
        (f"{MAPS}/a", "*/*", "ConfigMap", "v1"),
        (f"{MAPS}/a", TABLE, "Table", "meta.k8s.io/v1"),
        (f"{MAPS}/a", PARTIAL, "PartialObjectMetadata", "meta.k8s.io/v1"),
        (MAPS, "application/json", "ConfigMapList", "v1"),
        (MAPS, TABLE, "Table", "meta.k8s.io/v1"),
        (MAPS, PARTIAL_LIST, "PartialObjectMetadataList", "meta.k8s.io/v1"),
    ):
        response = await api.get(target, Accept=accept)
        assert (response.code, response.obj["kind"], response.obj["apiVersion"]) == (200, kind, version), accept
    for target, accept, message in (
        (f"{MAPS}/a", PARTIAL_LIST, "but the requested object is not a list (*core.ConfigMap)"),
        (MAPS, PARTIAL, "but the requested object is a list (*core.ConfigMapList)"),
    ):
        response = await api.get(target, Accept=accept)
        assert (response.code, message in response.message) == (406, True), (accept, response.message)
    unknown = await api.get(MAPS, Accept="text/x-unknown")
    assert (unknown.code, b"Available representations: application/json" in unknown.body) == (406, True)


async def test_contents_of_representations() -> None:
    api = await filled()
    plain = (await api.get(MAPS)).obj
    assert [(item["data"], "kind" in item, "apiVersion" in item) for item in plain["items"]] == [
        ({"k": "a"}, False, False),
        ({"k": "b"}, False, False),
    ]
    pretty = await api.get(f"{MAPS}?pretty=true")
    assert (pretty.obj, pretty.body.startswith(b'{\n  "kind"')) == (plain, True)
    partial = (await api.get(MAPS, Accept=PARTIAL_LIST)).obj
    assert [(item["kind"], "data" in item) for item in partial["items"]] == [("PartialObjectMetadata", False)] * 2
    assert partial["metadata"] == {"resourceVersion": "2"}
    table = (await api.get(MAPS, Accept=TABLE)).obj
    assert ([row["cells"][0] for row in table["rows"]], table["metadata"]) == (["a", "b"], {"resourceVersion": "2"})
    one = (await api.get(f"{MAPS}/a", Accept=TABLE)).obj
    assert one["metadata"] == {"resourceVersion": "1"}
    unsaved = await api.request("POST", f"{MAPS}?dryRun=All", config_map("c"), Accept=TABLE)
    assert unsaved.obj["metadata"] == {}


async def test_protobuf_is_sent_for_kinds_that_have_it() -> None:
    api = await filled()
    for target in (MAPS, f"{MAPS}/a"):
        response = await api.get(target, Accept=PROTOBUF)
        assert (response.headers["Content-Type"], response.body[:4]) == (PROTOBUF, b"k8s\0"), target
    error = await api.get(f"{MAPS}/x", Accept=PROTOBUF)
    assert (error.code, error.headers["Content-Type"], error.body[:4]) == (404, PROTOBUF, b"k8s\0")


async def test_long_lists_are_complete() -> None:
    api = Api()
    names = [f"m{number:04}" for number in range(501)]
    for name in names:
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name}
        api.store.put("core/configmaps", {"kind": "ConfigMap", "metadata": metadata})
    response = await api.get(MAPS)
    assert response.names == names
    assert (await api.get("/api/v1/namespaces/none/configmaps")).names == []


async def test_status_of_a_deletion_is_never_converted() -> None:
    api = await filled()
    for name, accept in (("a", TABLE), ("b", PARTIAL)):
        response = await api.request("DELETE", f"{MAPS}/{name}", Accept=accept)
        assert response.obj["kind"] == "Status", accept
    scale = "/apis/apps/v1/namespaces/default/replicasets/r/scale"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create("/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "r"}, "spec": spec})
    assert (await api.get(scale, Accept=PARTIAL)).obj["kind"] == "PartialObjectMetadata"


def test_errors_have_headers_of_their_code() -> None:
    for error, expected in (
        (ApiError(403, "Forbidden", "m"), {"X-Content-Type-Options": "nosniff"}),
        (ApiError(404, "NotFound", "m"), {}),
        (ApiError(429, "TooManyRequests", "m", {"retryAfterSeconds": 7}), {"Retry-After": "7"}),
        (ApiError(429, "TooManyRequests", "m", {"retryAfterSeconds": 0}), {}),
        (ApiError(401, "Unauthorized", "m", None, {"X": "y"}), {"X": "y"}),
    ):
        assert dict(render_error(error, PLAIN).headers) == expected, error
