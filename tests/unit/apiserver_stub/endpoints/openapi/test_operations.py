"""Tests for the operations in the published OpenAPI documents: paths, bodies and results."""

from __future__ import annotations

from typing import Any

import pytest

from .published import META, documents

OBJECTS = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
WATCHED = [*OBJECTS, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]
PATCHES = [f"application/{name}" for name in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json")]
POD, NODE = "/api/v1/namespaces/{namespace}/pods/{name}", "/api/v1/nodes/{name}"
METHODS = ("delete", "get", "head", "options", "patch", "post", "put")


def test_resources_have_paths_for_their_verbs() -> None:
    expected = {
        "/api/v1/nodes": {
            "get": "listCoreV1Node",
            "post": "createCoreV1Node",
            "delete": "deleteCoreV1CollectionNode",
        },
        NODE: {
            "get": "readCoreV1Node",
            "put": "replaceCoreV1Node",
            "patch": "patchCoreV1Node",
            "delete": "deleteCoreV1Node",
        },
        f"{NODE}/status": {
            "get": "readCoreV1NodeStatus",
            "put": "replaceCoreV1NodeStatus",
            "patch": "patchCoreV1NodeStatus",
        },
        f"{NODE}/proxy": {method: f"connectCoreV1{method.capitalize()}NodeProxy" for method in METHODS},
        f"{NODE}/proxy/{{path}}": {
            method: f"connectCoreV1{method.capitalize()}NodeProxyWithPath" for method in METHODS
        },
        "/api/v1/watch/nodes": {"get": "watchCoreV1NodeList"},
        "/api/v1/watch/nodes/{name}": {"get": "watchCoreV1Node"},
        "/api/v1/pods": {"get": "listCoreV1PodForAllNamespaces"},
        POD.removesuffix("/{name}"): {
            "get": "listCoreV1NamespacedPod",
            "post": "createCoreV1NamespacedPod",
            "delete": "deleteCoreV1CollectionNamespacedPod",
        },
        POD: {
            "get": "readCoreV1NamespacedPod",
            "put": "replaceCoreV1NamespacedPod",
            "patch": "patchCoreV1NamespacedPod",
            "delete": "deleteCoreV1NamespacedPod",
        },
        f"{POD}/log": {"get": "readCoreV1NamespacedPodLog"},
        f"{POD}/eviction": {"post": "createCoreV1NamespacedPodEviction"},
        f"{POD}/exec": {"get": "connectCoreV1GetNamespacedPodExec", "post": "connectCoreV1PostNamespacedPodExec"},
        "/api/v1/watch/pods": {"get": "watchCoreV1PodListForAllNamespaces"},
        "/api/v1/watch/namespaces/{namespace}/pods": {"get": "watchCoreV1NamespacedPodList"},
        "/api/v1/namespaces": {"get": "listCoreV1Namespace", "post": "createCoreV1Namespace"},
        "/api/v1/namespaces/{name}/finalize": {"put": "replaceCoreV1NamespaceFinalize"},
        "/api/v1/namespaces/{namespace}/bindings": {"post": "createCoreV1NamespacedBinding"},
    }
    for name in ("api/v1", ""):
        paths = documents()[name]["paths"]
        found = {
            path: {
                method: operation["operationId"] for method, operation in paths[path].items() if method != "parameters"
            }
            for path in expected
        }
        assert found == expected, name
    assert "/api/v1/watch/namespaces/{namespace}/bindings" not in documents()["api/v1"]["paths"]


@pytest.mark.parametrize(
    ("path", "method", "action", "kind", "codes", "result", "sent", "produced"),
    [
        ("/api/v1/nodes", "get", "list", "/v1/Node", "200", "core.v1.NodeList", "", WATCHED),
        ("/api/v1/nodes", "post", "post", "/v1/Node", "200 201 202", "core.v1.Node", "core.v1.Node", OBJECTS),
        ("/api/v1/nodes", "delete", "deletecollection", "/v1/Node", "200", "Status", "DeleteOptions", OBJECTS),
        (NODE, "get", "get", "/v1/Node", "200", "core.v1.Node", "", OBJECTS),
        (NODE, "put", "put", "/v1/Node", "200 201", "core.v1.Node", "core.v1.Node", OBJECTS),
        (NODE, "patch", "patch", "/v1/Node", "200 201", "core.v1.Node", "Patch", OBJECTS),
        (NODE, "delete", "delete", "/v1/Node", "200 202", "Status", "DeleteOptions", OBJECTS),
        (
            "/api/v1/namespaces/{namespace}/podtemplates/{name}",
            "delete",
            "delete",
            "/v1/PodTemplate",
            "200 202",
            "core.v1.PodTemplate",
            "DeleteOptions",
            OBJECTS,
        ),
        (POD, "delete", "delete", "/v1/Pod", "200 202", "core.v1.Pod", "DeleteOptions", OBJECTS),
        (
            "/api/v1/namespaces/{name}",
            "delete",
            "delete",
            "/v1/Namespace",
            "200 202",
            "Status",
            "DeleteOptions",
            OBJECTS,
        ),
        (f"{POD}/log", "get", "get", "/v1/Pod", "200", "string", "", ["text/plain", *OBJECTS]),
        (
            f"{POD}/eviction",
            "post",
            "post",
            "policy/v1/Eviction",
            "200 201 202",
            "policy.v1.Eviction",
            "policy.v1.Eviction",
            OBJECTS,
        ),
        (f"{NODE}/proxy", "get", "connect", "/v1/NodeProxyOptions", "200", "string", "", ["*/*"]),
        (f"{POD}/exec", "post", "connect", "/v1/PodExecOptions", "200", "string", "", ["*/*"]),
        ("/api/v1/watch/nodes", "get", "watchlist", "/v1/Node", "200", "WatchEvent", "", WATCHED),
        ("/api/v1/watch/nodes/{name}", "get", "watch", "/v1/Node", "200", "WatchEvent", "", WATCHED),
        (
            "/api/v1/namespaces/{namespace}/replicationcontrollers/{name}/scale",
            "get",
            "get",
            "autoscaling/v1/Scale",
            "200",
            "autoscaling.v1.Scale",
            "",
            OBJECTS,
        ),
    ],
)
def test_operations_state_their_bodies_and_results(
    path: str, method: str, action: str, kind: str, codes: str, result: str, sent: str, produced: list[str]
) -> None:
    def schema(name: str, prefix: str) -> Any:
        if name == "string":
            return {"type": "string"}
        return {"$ref": prefix + (f"io.k8s.api.{name}" if "." in name else f"{META}{name}")}

    three, two = documents()["api/v1"]["paths"][path][method], documents()[""]["paths"][path][method]
    group, version, name = kind.split("/")
    body = sent not in ("", "DeleteOptions")
    for operation in (three, two):
        assert operation["x-kubernetes-action"] == action
        assert operation["x-kubernetes-group-version-kind"] == {"group": group, "kind": name, "version": version}
        assert list(operation["responses"]) == [*codes.split(), "401"]
    for code in codes.split():
        content = three["responses"][code]["content"]
        assert list(content) == produced
        assert all(item["schema"] == schema(result, "#/components/schemas/") for item in content.values())
        assert two["responses"][code]["schema"] == schema(result, "#/definitions/")
    assert (two["produces"], two["schemes"]) == (produced, ["https"])
    assert two["consumes"] == ([*PATCHES, "application/apply-patch+yaml"] if method == "patch" else ["*/*"])
    shared = documents()[""]["parameters"]
    given = [shared.get(item.get("$ref", "").rpartition("/")[2], item) for item in two.get("parameters", ())]
    bodies = [item for item in given if item["in"] == "body"]
    if not sent:
        assert ("requestBody" in three, bodies) == (False, [])
        return
    types = [*PATCHES, "application/apply-patch+yaml"] if method == "patch" else OBJECTS
    assert list(three["requestBody"]["content"]) == types
    assert all(
        item["schema"] == schema(sent, "#/components/schemas/") for item in three["requestBody"]["content"].values()
    )
    assert three["requestBody"].get("required", False) is body
    (field,) = bodies
    assert (field["schema"], field.get("required", False)) == (schema(sent, "#/definitions/"), body)


@pytest.mark.parametrize(
    ("document", "path", "name", "tag", "schema", "types"),
    [
        ("version", "/version/", "getCodeVersion", "version", "io.k8s.apimachinery.pkg.version.Info", OBJECTS[:1]),
        ("api", "/api/", "getCoreAPIVersions", "core", f"{META}APIVersions", OBJECTS),
        ("apis", "/apis/", "getAPIVersions", "apis", f"{META}APIGroupList", OBJECTS),
        ("apis/apps", "/apis/apps/", "getAppsAPIGroup", "apps", f"{META}APIGroup", OBJECTS),
        ("apis/apps/v1", "/apis/apps/v1/", "getAppsV1APIResources", "apps_v1", f"{META}APIResourceList", OBJECTS),
        ("api/v1", "/api/v1/", "getCoreV1APIResources", "core_v1", f"{META}APIResourceList", OBJECTS),
        (
            "openid/v1/jwks",
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "",
            ["application/jwk-set+json"],
        ),
    ],
)
def test_paths_of_the_server_state_their_results(
    document: str, path: str, name: str, tag: str, schema: str, types: list[str]
) -> None:
    three, two = documents()[document]["paths"][path]["get"], documents()[""]["paths"][path]["get"]

    for operation in (three, two):
        assert (operation["operationId"], operation["tags"]) == (name, [tag])
        assert operation["responses"].keys() == {"200", "401"}
    content = {"$ref": f"#/components/schemas/{schema}"} if schema else {"type": "string"}
    assert three["responses"]["200"]["content"] == {media_type: {"schema": content} for media_type in types}
    assert (two["produces"], two["schemes"]) == (types, ["https"])
    assert two.get("consumes") == (types if schema else None)
    assert {"consumes", "produces", "schemes"}.isdisjoint(three)
