"""Tests for the published OpenAPI documents: references, operations and list annotations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
import pytest

from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.endpoints import openapi
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

DOCUMENTS = {
    name: msgspec.json.decode(body) for name, body in openapi._build(build_registry(Options()), Identity()).items()
}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, content in value.items():
            if name == "$ref" and isinstance(content, str):
                yield content
            else:
                yield from references(content)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_references_resolve(name: str) -> None:
    document = DOCUMENTS[name]
    found = set(references(document))

    assert found
    for reference in found:
        location: Any = document
        for part in reference.removeprefix("#/").split("/"):
            location = location[part]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_operation_ids_are_unique(name: str) -> None:
    operations = [
        operation["operationId"]
        for item in DOCUMENTS[name]["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]

    assert sorted(operations) == sorted(set(operations))


def test_events_group_has_eight_operations_with_parameters() -> None:
    paths = DOCUMENTS["apis/events.k8s.io/v1"]["paths"]
    root = "/apis/events.k8s.io/v1"

    assert {(path, method) for path, item in paths.items() for method in item if method != "parameters"} == {
        (f"{root}/events", "get"),
        *((f"{root}/namespaces/{{namespace}}/events", method) for method in ("get", "post", "delete")),
        *((f"{root}/namespaces/{{namespace}}/events/{{name}}", method) for method in ("get", "put", "patch", "delete")),
    }
    patch = paths[f"{root}/namespaces/{{namespace}}/events/{{name}}"]["patch"]
    assert {item["name"] for item in patch["parameters"]} == {"dryRun", "fieldManager", "fieldValidation", "force"}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "events.k8s.io", "kind": "Event", "version": "v1"}


def test_lists_have_merge_annotations() -> None:
    schemas = DOCUMENTS["api/v1"]["components"]["schemas"]
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert (ports["x-kubernetes-patch-strategy"], ports["x-kubernetes-patch-merge-key"]) == ("merge", "containerPort")
    volumes = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"]
    assert volumes["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    tolerations = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["tolerations"]
    assert tolerations["x-kubernetes-list-type"] == "atomic"
    assert "x-kubernetes-patch-strategy" not in tolerations
    assert schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"] == "atomic"
    claim = schemas["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["claimRef"]
    assert claim["x-kubernetes-map-type"] == "granular"


async def test_document_requested_by_hash_is_cacheable() -> None:
    documents = openapi.OpenApi(build_registry(Options()), Remotes(Identity()), Identity())

    async def send(query: str) -> Any:
        info = RequestInfo("get", "/openapi/v3/api/v1")
        return await documents.respond(Request("GET", info, Query(query), {}, b"", User("u"), PLAIN, Identity()))

    first = await send("")
    kept = await send(f"hash={first.headers['Etag'].strip(chr(34))}")

    assert kept.headers["Cache-Control"] == "public, immutable"
    assert parsedate_to_datetime(kept.headers["Expires"]) > datetime.now(UTC) + timedelta(days=300)
    assert "Expires" not in first.headers
    moved = await send("hash=OLD")
    assert (moved.code, moved.headers["Location"].partition("=")[2]) == (301, first.headers["Etag"].strip('"'))


@pytest.mark.parametrize(
    ("minor", "present", "absent"),
    [
        (29, {"restartPolicy", "env"}, {"restartPolicyRules"}),
        (33, {"restartPolicy", "env"}, {"restartPolicyRules"}),
        (34, {"restartPolicy", "env", "restartPolicyRules"}, set()),
    ],
)
def test_documents_have_only_fields_of_the_release(minor: int, present: set[str], absent: set[str]) -> None:
    built = openapi._build(build_registry(Options()), Identity(), Release(1, minor))
    document = msgspec.json.decode(built[""])
    fields = document["definitions"]["io.k8s.api.core.v1.Container"]["properties"].keys()

    assert present <= fields
    assert not absent & fields
    assert ("io.k8s.api.core.v1.ContainerRestartRule" in document["definitions"]) is (not absent)
    assert set(references(document)) <= {f"#/definitions/{name}" for name in document["definitions"]}


def test_fields_of_later_releases_are_described() -> None:
    built = openapi._build(build_registry(Options()), Identity(), Release(1, 36))
    schemas = msgspec.json.decode(built["api/v1"])["components"]["schemas"]
    rules = schemas["io.k8s.api.core.v1.Container"]["properties"]["restartPolicyRules"]
    mounts = schemas["io.k8s.api.core.v1.ContainerStatus"]["properties"]["volumeMounts"]

    assert rules["items"]["allOf"][0]["$ref"].endswith("ContainerRestartRule")
    assert "x-kubernetes-list-map-keys" not in rules
    assert mounts["x-kubernetes-list-map-keys"] == ["mountPath"]
    assert mounts["x-kubernetes-patch-merge-key"] == "mountPath"
