"""Tests for the published OpenAPI documents: references, operations and list annotations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
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

from .published import META, built_at, documents, schemas_at


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


def test_references_resolve() -> None:
    for name, document in documents().items():
        found = set(references(document))

        assert found or name in ("openid/v1/jwks", ".well-known/openid-configuration")
        for reference in found:
            location: Any = document
            for part in reference.removeprefix("#/").split("/"):
                location = location[part]


def test_operation_ids_are_unique() -> None:
    for name, document in documents().items():
        operations = [
            operation["operationId"]
            for item in document["paths"].values()
            for method, operation in item.items()
            if method != "parameters"
        ]

        assert sorted(operations) == sorted(set(operations)), name


def test_events_group_has_operations_with_parameters() -> None:
    paths = documents()["apis/events.k8s.io/v1"]["paths"]
    root = "/apis/events.k8s.io/v1"

    assert {
        (path, method)
        for path, item in paths.items()
        for method in item
        if method != "parameters" and "/watch/" not in path
    } == {
        (f"{root}/", "get"),
        (f"{root}/events", "get"),
        *((f"{root}/namespaces/{{namespace}}/events", method) for method in ("get", "post", "delete")),
        *((f"{root}/namespaces/{{namespace}}/events/{{name}}", method) for method in ("get", "put", "patch", "delete")),
    }
    patch = paths[f"{root}/namespaces/{{namespace}}/events/{{name}}"]["patch"]
    assert {item["name"] for item in patch["parameters"]} == {"dryRun", "fieldManager", "fieldValidation", "force"}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "events.k8s.io", "kind": "Event", "version": "v1"}


def test_lists_have_merge_annotations() -> None:
    schemas = schemas_at(30)
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


async def test_concurrent_requests_build_the_documents_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, builds = build_registry(Options()), []
    documents = openapi.OpenApi(registry, Remotes(Identity()), Identity())

    def build(*_: Any, **__: Any) -> Mapping[str, bytes]:
        builds.append(len(builds))
        return {"": b'{"swagger": "2.0"}'}

    monkeypatch.setattr(openapi, "_build", build)

    async def send() -> Any:
        info = RequestInfo("get", "/openapi/v2")
        return await documents.respond(Request("GET", info, Query(""), {}, b"", User("u"), PLAIN, Identity()))

    assert len({reply.body for reply in await asyncio.gather(*(send() for _ in range(5)))}) == 1
    assert len(builds) == 1
    registry.replace("widgets.example.com", registry.of("", "v1")[:1])
    await asyncio.gather(*(send() for _ in range(5)))
    assert len(builds) == 2, "the resources have changed"


@pytest.mark.parametrize(
    ("minor", "present", "absent"),
    [
        (29, {"restartPolicy", "env"}, {"restartPolicyRules"}),
        (33, {"restartPolicy", "env"}, {"restartPolicyRules"}),
        (34, {"restartPolicy", "env", "restartPolicyRules"}, set()),
    ],
)
def test_documents_have_only_fields_of_the_release(minor: int, present: set[str], absent: set[str]) -> None:
    built = built_at(minor)
    document = msgspec.json.decode(built[""])
    fields = document["definitions"]["io.k8s.api.core.v1.Container"]["properties"].keys()

    assert present <= fields
    assert not absent & fields
    assert ("io.k8s.api.core.v1.ContainerRestartRule" in document["definitions"]) is (not absent)
    known = {f"#/{part}/{name}" for part in ("definitions", "parameters") for name in document[part]}
    assert set(references(document)) <= known


def test_fields_of_later_releases_are_described() -> None:
    built = built_at(36)
    schemas = msgspec.json.decode(built["api/v1"])["components"]["schemas"]
    rules = schemas["io.k8s.api.core.v1.Container"]["properties"]["restartPolicyRules"]
    mounts = schemas["io.k8s.api.core.v1.ContainerStatus"]["properties"]["volumeMounts"]

    assert rules["items"]["$ref"].endswith("ContainerRestartRule")
    assert "x-kubernetes-list-map-keys" not in rules
    assert mounts["x-kubernetes-list-map-keys"] == ["mountPath"]
    assert mounts["x-kubernetes-patch-merge-key"] == "mountPath"


@pytest.mark.parametrize(("minor", "containers", "ports", "items"), [(29, None, "map", None), (30, "map", "map", None)])
def test_list_types_are_stated_as_in_the_release(
    minor: int, containers: str | None, ports: str, items: str | None
) -> None:
    schemas = schemas_at(minor)

    def list_type(kind: str, name: str) -> str | None:
        found: str | None = schemas[f"io.k8s.api.core.v1.{kind}"]["properties"][name].get("x-kubernetes-list-type")
        return found

    assert (list_type("PodSpec", "containers"), list_type("Container", "ports")) == (containers, ports)
    assert list_type("PodList", "items") == items


@pytest.mark.parametrize(
    ("minor", "kind", "required"),
    [
        (29, "core.v1.PodSpec", ["containers"]),
        (29, "core.v1.ContainerPort", ["containerPort"]),
        (29, "core.v1.PersistentVolumeClaimTemplate", ["spec"]),
        (29, "core.v1.Event", ["metadata", "involvedObject"]),
        (29, "core.v1.ServicePort", ["port"]),
        (30, "core.v1.PodIP", None),
        (31, "core.v1.PodIP", ["ip"]),
        (29, "apps.v1.StatefulSetSpec", ["selector", "template", "serviceName"]),
        (36, "apps.v1.StatefulSetSpec", ["selector", "template"]),
        (36, "autoscaling.v2.HorizontalPodAutoscalerStatus", ["desiredReplicas"]),
        (36, "authentication.v1.TokenRequestSpec", None),
    ],
)
def test_required_fields_are_stated(minor: int, kind: str, required: list[str] | None) -> None:
    assert schemas_at(minor, name="")[f"io.k8s.api.{kind}"].get("required") == required


def test_patch_strategies_of_objects_are_stated() -> None:
    strategy = schemas_at(36, name="")["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"]

    assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"


@pytest.mark.parametrize(
    "name",
    [
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        "io.k8s.api.core.v1.Pod",
    ],
)
def test_schemas_have_the_names_of_kubernetes(name: str) -> None:
    assert name in schemas_at(36, name="")


@pytest.mark.row("gate.OpenAPIEnums")
@pytest.mark.parametrize("enums", [True, False])
def test_enumerated_fields_have_values_with_the_gate(enums: bool) -> None:
    schemas = schemas_at(30, enums=enums)

    policy = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"]
    scopes = schemas["io.k8s.api.core.v1.ResourceQuotaSpec"]["properties"]["scopes"]["items"]
    assert policy.get("enum") == (["Always", "Never", "OnFailure"] if enums else None)
    assert ("VolumeAttributesClass" in scopes.get("enum", ())) is False
    assert ("BestEffort" in scopes.get("enum", ())) is enums
    modes = schemas["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]["accessModes"]
    assert ("enum" in modes["items"]) is enums and "enum" not in modes
    early = schemas_at(29, enums=enums)["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]["accessModes"]
    assert "enum" not in early["items"]


def test_values_of_two_types_are_alternatives_in_version_3() -> None:
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

    assert schemas_at(29)[name] == {
        "description": "Number or text, such as a port or its name.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    }
    definition = documents()[""]["definitions"][name]
    assert (definition["type"], definition["format"]) == ("string", "int-or-string")


@pytest.mark.parametrize(
    ("path", "method", "name"),
    [
        ("/api/v1/nodes", "get", "listCoreV1Node"),
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces"),
        ("/api/v1/namespaces/{namespace}/pods", "get", "listCoreV1NamespacedPod"),
        ("/api/v1/namespaces/{namespace}/pods", "delete", "deleteCoreV1CollectionNamespacedPod"),
        ("/api/v1/namespaces/{namespace}/pods/{name}", "get", "readCoreV1NamespacedPod"),
        ("/api/v1/namespaces/{namespace}/pods/{name}", "put", "replaceCoreV1NamespacedPod"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/status", "patch", "patchCoreV1NamespacedPodStatus"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/log", "get", "readCoreV1NamespacedPodLog"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/exec", "post", "connectCoreV1PostNamespacedPodExec"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post", "createCoreV1NamespacedPodEviction"),
        ("/api/v1/nodes/{name}/proxy/{path}", "head", "connectCoreV1HeadNodeProxyWithPath"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}", "get", "readRbacAuthorizationV1ClusterRole"),
        ("/apis/events.k8s.io/v1/events", "get", "listEventsV1EventForAllNamespaces"),
    ],
)
def test_operation_ids_are_those_of_kubernetes(path: str, method: str, name: str) -> None:
    operation = documents()[""]["paths"][path][method]

    assert operation["operationId"] == name
    assert operation["schemes"] == ["https"] and operation["produces"] and operation["consumes"]


@pytest.mark.parametrize(
    ("subresource", "expected"),
    [
        ("attach", {"container", "stderr", "stdin", "stdout", "tty"}),
        ("exec", {"command", "container", "stderr", "stdin", "stdout", "tty"}),
        ("log", {"container", "follow", "limitBytes", "previous", "sinceSeconds", "tailLines", "timestamps", "pretty"}),
        ("portforward", {"ports"}),
        ("proxy", {"path"}),
    ],
)
def test_streams_have_query_parameters(subresource: str, expected: set[str]) -> None:
    item = documents()["api/v1"]["paths"][f"/api/v1/namespaces/{{namespace}}/pods/{{name}}/{subresource}"]
    found = {parameter["name"] for parameter in item["parameters"] if parameter["in"] == "query"}

    assert found - {"insecureSkipTLSVerifyBackend"} == expected
    assert all(parameter["description"] for parameter in item["parameters"])


def test_operations_have_tags_and_the_documents_security_schemes() -> None:
    core, roles = documents()["api/v1"], documents()["apis/rbac.authorization.k8s.io/v1"]

    assert core["paths"]["/api/v1/pods"]["get"]["tags"] == ["core_v1"]
    assert roles["paths"]["/apis/rbac.authorization.k8s.io/v1/roles"]["get"]["tags"] == ["rbacAuthorization_v1"]
    assert core["components"]["securitySchemes"].keys() == documents()[""]["securityDefinitions"].keys()
    assert documents()[""]["security"] == [{"BearerToken": []}]
    assert "security" not in core


def test_every_field_has_a_description() -> None:
    for name, document in documents().items():
        schemas = document["definitions"] if not name else document["components"].get("schemas", {})

        for schema, content in schemas.items():
            for field, properties in content.get("properties", {}).items():
                assert properties["description"].endswith("."), (name, schema, field)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "application/json"),
        (
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
            "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
        ),
    ],
)
async def test_version_3_is_sent_as_json_or_protobuf(accept: str, content_type: str) -> None:
    documents = openapi.OpenApi(build_registry(Options()), Remotes(Identity()), Identity())
    info = RequestInfo("get", "/openapi/v3/apis/policy/v1")

    reply = await documents.respond(
        Request("GET", info, Query(""), {"Accept": accept}, b"", User("u"), PLAIN, Identity())
    )

    assert reply is not None and reply.content_type == content_type
    assert (reply.body or b"").startswith(b"{") is (content_type == "application/json")


@pytest.mark.parametrize(
    ("path", "name", "action"),
    [
        ("/api/v1/watch/nodes", "watchCoreV1NodeList", "watchlist"),
        ("/api/v1/watch/nodes/{name}", "watchCoreV1Node", "watch"),
        ("/api/v1/watch/pods", "watchCoreV1PodListForAllNamespaces", "watchlist"),
        ("/api/v1/watch/namespaces/{namespace}/pods", "watchCoreV1NamespacedPodList", "watchlist"),
        ("/api/v1/watch/namespaces/{namespace}/pods/{name}", "watchCoreV1NamespacedPod", "watch"),
    ],
)
def test_deprecated_watch_paths_are_published(path: str, name: str, action: str) -> None:
    operation = documents()["api/v1"]["paths"][path]["get"]

    assert (operation["operationId"], operation["x-kubernetes-action"]) == (name, action)
    content = operation["responses"]["200"]["content"]
    assert content["application/json;stream=watch"]["schema"]["$ref"].endswith("v1.WatchEvent")
    assert operation["description"].partition(" ")[0] == "Watch"


@pytest.mark.parametrize(
    ("name", "path", "operation", "schema"),
    [
        ("api", "/api/", "getCoreAPIVersions", "apis.meta.v1.APIVersions"),
        ("apis", "/apis/", "getAPIVersions", "apis.meta.v1.APIGroupList"),
        ("apis/apps", "/apis/apps/", "getAppsAPIGroup", "apis.meta.v1.APIGroup"),
        ("apis/apps/v1", "/apis/apps/v1/", "getAppsV1APIResources", "apis.meta.v1.APIResourceList"),
        ("api/v1", "/api/v1/", "getCoreV1APIResources", "apis.meta.v1.APIResourceList"),
        ("version", "/version/", "getCodeVersion", "version.Info"),
    ],
)
def test_discovery_and_version_are_published(name: str, path: str, operation: str, schema: str) -> None:
    found = documents()[name]["paths"][path]["get"]

    assert found["operationId"] == documents()[""]["paths"][path]["get"]["operationId"] == operation
    reference = found["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert reference == f"#/components/schemas/io.k8s.apimachinery.pkg.{schema}"


def test_issuer_of_tokens_is_published() -> None:
    paths = documents()[""]["paths"]

    assert paths["/.well-known/openid-configuration/"]["get"]["produces"] == ["application/json"]
    assert paths["/openid/v1/jwks/"]["get"]["produces"] == ["application/jwk-set+json"]
    assert {"openid/v1/jwks", ".well-known/openid-configuration"} <= documents().keys()


@pytest.mark.parametrize(("minor", "name", "count"), [(29, "apis/apps/v1", 58), (36, "apis/apps/v1", 2), (36, "", 60)])
def test_options_of_deletions_are_a_kind_of_group_versions(minor: int, name: str, count: int) -> None:
    schema = schemas_at(minor, name=name)["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]

    kinds = [(found["group"], found["version"]) for found in schema["x-kubernetes-group-version-kind"]]
    assert len(kinds) == count
    assert kinds[0] == ("", "v1") and ("apps", "v1") in kinds


def test_documents_contain_no_unused_schemas() -> None:
    schemas = documents()["apis/authentication.k8s.io/v1"]["components"]["schemas"]

    assert not any(name.endswith((".DeleteOptions", ".Patch", ".Status")) for name in schemas)


def test_bodies_of_requests_have_any_type_only_in_version_2() -> None:
    item = documents()[""]["paths"]["/api/v1/nodes/{name}"]

    assert item["put"]["consumes"] == item["delete"]["consumes"] == ["*/*"]
    bodies = documents()["api/v1"]["paths"]["/api/v1/nodes/{name}"]
    assert "application/json" in bodies["put"]["requestBody"]["content"]
    assert "application/apply-patch+yaml" in item["patch"]["consumes"]
    assert item["put"]["responses"]["201"]["description"] == "Created"


def test_untyped_values_have_named_schemas() -> None:
    revision = documents()[""]["definitions"]["io.k8s.api.apps.v1.ControllerRevision"]["properties"]["data"]
    profile = documents()[""]["definitions"]["io.k8s.api.core.v1.SeccompProfile"]

    assert revision["$ref"] == "#/definitions/io.k8s.apimachinery.pkg.runtime.RawExtension"
    assert profile["x-kubernetes-unions"] == [
        {"discriminator": "type", "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}
    ]


def test_version_of_the_documents_has_no_patch_number_since_1_31() -> None:
    versions = [
        msgspec.json.decode(openapi._build(build_registry(Options()), Identity(), Release(1, minor))["version"])
        for minor in (30, 36)
    ]

    assert versions[0]["info"]["version"].startswith("v1.30.")
    assert versions[1]["info"]["version"] == "1.36"


@pytest.mark.parametrize(
    ("minor", "kind", "field", "default"),
    [
        (29, "core.v1.Pod", "spec", None),
        (29, "core.v1.Container", "name", ""),
        (29, "core.v1.ContainerStatus", "ready", False),
        (29, "core.v1.ContainerStatus", "restartCount", 0),
        (29, "core.v1.ContainerPort", "protocol", "TCP"),
        (29, "core.v1.Container", "image", None),
        (29, "core.v1.Container", "livenessProbe", None),
        (29, "core.v1.RBDVolumeSource", "pool", None),
        (29, "core.v1.SeccompProfile", "type", None),
        (36, "core.v1.RBDVolumeSource", "pool", "rbd"),
    ],
)
def test_defaults_are_stated_in_version_3(minor: int, kind: str, field: str, default: Any) -> None:
    schemas, definitions = schemas_at(minor), schemas_at(minor, name="")

    assert schemas[f"io.k8s.api.{kind}"]["properties"][field].get("default") == default
    assert "default" not in definitions[f"io.k8s.api.{kind}"]["properties"][field]


def test_reference_has_no_other_keys_next_to_it_in_version_3() -> None:
    schemas = schemas_at(36)
    spec = schemas["io.k8s.api.core.v1.Pod"]["properties"]["spec"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]

    assert [item["$ref"].rpartition(".")[2] for item in spec["allOf"]] == ["PodSpec"]
    assert containers["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}


def test_items_have_defaults_in_early_releases() -> None:
    schemas = schemas_at(29)
    assert schemas["io.k8s.api.core.v1.Container"]["properties"]["args"]["items"]["default"] == ""


def test_claims_of_stateful_sets_are_a_kind() -> None:
    claim = schemas_at(36, name="apis/apps/v1")["io.k8s.api.core.v1.PersistentVolumeClaim"]

    assert [found["kind"] for found in claim["x-kubernetes-group-version-kind"]] == ["PersistentVolumeClaim"]


@pytest.mark.parametrize(("minor", "listed"), [(29, False), (31, True)])
def test_selectors_of_access_reviews_exist_since_1_31(minor: int, listed: bool) -> None:
    fields = schemas_at(minor, name="")["io.k8s.api.authorization.v1.ResourceAttributes"]["properties"]

    assert ({"fieldSelector", "labelSelector"} <= fields.keys()) is listed


def test_states_of_allocated_resources_have_separate_owners() -> None:
    status = schemas_at(36)["io.k8s.api.core.v1.PersistentVolumeClaimStatus"]["properties"]

    assert status["allocatedResourceStatuses"]["x-kubernetes-map-type"] == "granular"


QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
NUMBER_OR_TEXT = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


@pytest.mark.parametrize(
    ("kind", "field", "early", "late"),
    [
        ("Secret", "data", {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}}, {}),
        ("ConfigMap", "data", {"type": "object", "additionalProperties": {"type": "string"}}, {}),
        ("ContainerPort", "containerPort", {"type": "integer", "format": "int32"}, {}),
        ("PodSpec", "activeDeadlineSeconds", {"type": "integer", "format": "int64"}, {}),
        ("Container", "tty", {"type": "boolean"}, {}),
        ("HTTPGetAction", "port", {"$ref": NUMBER_OR_TEXT}, {}),
        ("PodStatus", "startTime", {"$ref": f"{META}Time"}, {}),
        ("Probe", "httpGet", {"$ref": "io.k8s.api.core.v1.HTTPGetAction"}, {}),
        (
            "ResourceRequirements",
            "limits",
            {"type": "object", "additionalProperties": {"$ref": QUANTITY}},
            {},
        ),
        (
            "Container",
            "command",
            {"type": "array", "items": {"type": "string"}},
            {"x-kubernetes-list-type": "atomic"},
        ),
        (
            "NodeStatus",
            "images",
            {"type": "array", "items": {"$ref": "io.k8s.api.core.v1.ContainerImage"}},
            {"x-kubernetes-list-type": "atomic"},
        ),
        (
            "PersistentVolumeClaimStatus",
            "conditions",
            {
                "type": "array",
                "items": {"$ref": "io.k8s.api.core.v1.PersistentVolumeClaimCondition"},
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "type",
            },
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
        (
            "ServiceSpec",
            "clusterIPs",
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            {},
        ),
    ],
)
def test_types_of_fields_are_stated(kind: str, field: str, early: Any, late: Any) -> None:
    def plain(value: Any) -> Any:
        """Return *value* with names as references, without descriptions and defaults."""
        if not isinstance(value, dict):
            return value
        if "allOf" in value:
            (value,) = value["allOf"]
        kept = {name: plain(item) for name, item in value.items() if name not in ("description", "default")}
        return {**kept, "$ref": kept["$ref"].rpartition("/")[2]} if "$ref" in kept else kept

    for minor, expected in ((29, early), (36, {**early, **late})):
        for name in ("", "api/v1"):
            found = schemas_at(minor, name=name)[f"io.k8s.api.core.v1.{kind}"]["properties"][field]
            assert plain(found) == expected, (minor, name)


def test_values_of_several_types_are_stated_by_version() -> None:
    for name, two, three in (
        (QUANTITY, {"type": "string"}, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (
            NUMBER_OR_TEXT,
            {"type": "string", "format": "int-or-string"},
            {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        (f"{META}Time", *[{"type": "string", "format": "date-time"}] * 2),
    ):
        for document, expected in (("", two), ("api/v1", three)):
            found = dict(schemas_at(29, name=document)[name])
            assert found.pop("description").endswith(".")
            assert found == expected, (name, document)


def test_only_kinds_and_lists_have_group_and_version() -> None:
    schemas = schemas_at(29, name="")
    kinds = {name: item.get("x-kubernetes-group-version-kind") for name, item in schemas.items()}

    assert kinds["io.k8s.api.core.v1.Node"] == [{"group": "", "kind": "Node", "version": "v1"}]
    assert kinds["io.k8s.api.core.v1.NodeList"] == [{"group": "", "kind": "NodeList", "version": "v1"}]
    assert kinds[f"{META}Status"] == [{"group": "", "kind": "Status", "version": "v1"}]
    for name in ("io.k8s.api.core.v1.NodeSpec", "io.k8s.api.core.v1.PodTemplateSpec", f"{META}ObjectMeta"):
        assert kinds[name] is None
    for name in ("DeleteOptions", "WatchEvent"):
        assert {"group": "apps", "kind": name, "version": "v1beta2"} in (kinds[META + name] or ())
    assert schemas["io.k8s.api.core.v1.NodeList"]["required"] == ["items"]
    assert schemas[f"{META}WatchEvent"]["required"] == ["type", "object"]
    assert {"type", "properties"}.isdisjoint(schemas[f"{META}Patch"]) is False


@pytest.mark.parametrize(
    ("minor", "present", "absent"),
    [
        (30, ["autoscaling/v2beta2", "networking.k8s.io/v1alpha1", "resource.k8s.io/v1alpha2"], ["resource.k8s.io/v1"]),
        (31, ["resource.k8s.io/v1alpha3"], ["resource.k8s.io/v1alpha2", "resource.k8s.io/v1beta1"]),
        (33, ["autoscaling/v2beta1", "resource.k8s.io/v1beta2"], ["resource.k8s.io/v1"]),
        (34, ["resource.k8s.io/v1", "scheduling.k8s.io/v1alpha1"], ["autoscaling/v2beta1"]),
        (36, ["scheduling.k8s.io/v1alpha2", "storagemigration.k8s.io/v1beta1"], ["scheduling.k8s.io/v1alpha1"]),
    ],
)
def test_options_are_kinds_of_the_group_versions_of_the_release(
    minor: int, present: list[str], absent: list[str]
) -> None:
    kinds = schemas_at(minor, name="")[f"{META}DeleteOptions"]["x-kubernetes-group-version-kind"]
    found = {f"{item['group']}/{item['version']}" for item in kinds}

    assert found.issuperset(present)
    assert found.isdisjoint(absent)


@pytest.mark.parametrize(("minor", "listed"), [(34, True), (35, False)])
def test_documents_of_version_3_list_own_versions_of_options_since_1_35(minor: int, listed: bool) -> None:
    for name, expected in (("", True), ("apis/apps/v1", listed)):
        kinds = schemas_at(minor, name=name)[f"{META}DeleteOptions"]["x-kubernetes-group-version-kind"]
        assert ({"group": "batch", "kind": "DeleteOptions", "version": "v1"} in kinds) is expected, name


@pytest.mark.parametrize(("minor", "listed"), [(32, False), (33, True)])
def test_compatible_versions_are_stated_since_1_33(minor: int, listed: bool) -> None:
    for name in ("", "version"):
        schema = schemas_at(minor, name=name)["io.k8s.apimachinery.pkg.version.Info"]
        assert ({"minCompatibilityMinor", "emulationMinor"} <= schema["properties"].keys()) is listed
        assert schema["required"][0] == "major"


def test_json_values_have_any_type_and_raw_ones_are_objects() -> None:
    schemas = schemas_at(29, name="")

    assert "type" not in schemas["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"]
    assert schemas["io.k8s.apimachinery.pkg.runtime.RawExtension"]["type"] == "object"


def test_kinds_and_fields_without_a_text_are_described_by_their_names() -> None:
    schemas = schemas_at(29, name="")

    assert schemas["io.k8s.api.core.v1.PodList"]["description"] == "List of Pod objects."
    assert schemas["io.k8s.api.core.v1.DaemonEndpoint"]["description"] == "Daemon endpoint."
    limits = schemas["io.k8s.api.core.v1.LimitRangeItem"]["properties"]
    assert limits["maxLimitRequestRatio"]["description"] == "Max limit request ratio."
    assert schemas["io.k8s.api.core.v1.ContainerStatus"]["properties"]["imageID"]["description"].endswith(".")
