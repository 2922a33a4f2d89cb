"""Tests for discovery documents: formats, caching and methods."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.remotes import Discovered, Remotes
from apiserver_stub.apimachinery import version as reported
from apiserver_stub.apimachinery.media import PLAIN, PRETTY, Format
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.endpoints.discovery import Discovery, DiscoverySettings, aggregated_versions
from apiserver_stub.endpoints.issuer_discovery import IssuerDiscovery
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.options import parse
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.pipeline.error_responses import PlainNotFound
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.subresources import Handlers
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.aggregation.test_remotes import remote

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
STABLE = AGGREGATED.replace("v2beta1", "v2")
ISSUER = "/.well-known/openid-configuration"


def address() -> str:
    return "127.0.0.1:6443"


async def send(
    path: str,
    *,
    method: str = "GET",
    format_: Format = PLAIN,
    settings: DiscoverySettings | None = None,
    remotes: Remotes | None = None,
    **headers: str,
) -> Rendered:
    options = parse([])
    tokens: Any = SimpleNamespace(
        issuer="https://issuer.example", keys=SimpleNamespace(published=(), max_age_seconds=60)
    )
    endpoints = [
        Discovery(build_registry(options), remotes or Remotes(Identity()), address, settings or DiscoverySettings()),
        IssuerDiscovery(tokens, address, jwks_uri="", external_hostname=""),
    ]
    dispatcher = Dispatcher(SimpleNamespace(), Handlers(), endpoints, SimpleNamespace())
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    info = RequestInfo(method.lower(), path)
    return await dispatcher.dispatch(Request(method, info, Query(""), given, b"", User("u"), format_, Identity()), None)


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis", "/apis/policy", "/apis/policy/v1"])
async def test_lists_are_indented_for_browsers_and_curl(path: str) -> None:
    short, long = await send(path), await send(path, format_=PRETTY)

    assert long.pieces[0].startswith(b'{\n  "kind": "API')
    assert json.loads(long.pieces[0]) == json.loads(short.pieces[0])
    assert short.pieces[0].count(b"\n") == 1


@pytest.mark.parametrize("path", ["/", "/version"])
async def test_version_and_paths_are_always_indented(path: str) -> None:
    assert (await send(path)).pieces[0].startswith(b"{\n  ")


async def test_paths_include_those_of_other_documents() -> None:
    sent = await send("/", settings=DiscoverySettings(other_paths=["/livez/ping", "/a"]))

    paths = json.loads(sent.pieces[0])["paths"]
    assert paths == sorted(paths)
    assert {"/livez/ping", "/a", "/apis/", "/apis/apps/v1"}.issubset(paths)


async def test_unstored_kinds_have_no_storage_version() -> None:
    resources = json.loads((await send("/api/v1")).pieces[0])["resources"]

    hashed = {item["name"]: "storageVersionHash" in item for item in resources}
    assert (hashed["componentstatuses"], hashed["bindings"], hashed["pods"]) == (False, False, True)


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_document_is_sent_again_only_after_a_change(path: str) -> None:
    first = await send(path, Accept=AGGREGATED)
    tag = first.headers["Etag"]

    again = await send(path, Accept=AGGREGATED, If_None_Match=tag)

    assert (again.code, again.pieces, again.headers["Etag"]) == (304, [b""], tag)
    assert again.content_type == first.content_type  # clients then use their cached document
    assert (await send(path, Accept=AGGREGATED, If_None_Match='"other"')).code == 200


@pytest.mark.parametrize(
    ("minor", "gates", "expected"),
    [
        (29, {}, ["v2beta1"]),
        (29, {"AggregatedDiscoveryEndpoint": False}, []),
        (30, {}, ["v2", "v2beta1"]),
        (32, {}, ["v2", "v2beta1"]),
        (33, {}, ["v2"]),
        (33, {"AggregatedDiscoveryRemoveBetaType": False}, ["v2", "v2beta1"]),
        (36, {}, ["v2"]),
    ],
)
async def test_versions_of_aggregated_discovery_by_release(
    minor: int, gates: dict[str, bool], expected: list[str]
) -> None:
    release = Release(1, minor)
    settings = DiscoverySettings(release, aggregated=aggregated_versions(build_gates(gates, release), release))

    for version, accept in (("v2", STABLE), ("v2beta1", AGGREGATED)):
        sent = await send("/apis", settings=settings, Accept=f"{accept},application/json")
        document = json.loads(sent.pieces[0])
        if version in expected:
            assert (sent.content_type, document["apiVersion"]) == (accept, f"apidiscovery.k8s.io/{version}")
        else:
            assert (sent.content_type, document["kind"]) == ("application/json", "APIGroupList")


@pytest.mark.parametrize(("minor", "expected"), [(33, {"creationTimestamp": None}), (34, {})])
async def test_groups_have_a_null_creation_time_before_1_34(minor: int, expected: dict[str, Any]) -> None:
    settings = DiscoverySettings(Release(1, minor), aggregated=["v2"])

    document = json.loads((await send("/api", settings=settings, Accept=STABLE)).pieces[0])

    assert document["items"][0]["metadata"] == expected


@pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "POST"])
@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis", "/apis/policy", "/apis/policy/v1", "/version", ISSUER])
async def test_discovery_rejects_writes(method: str, path: str) -> None:
    with pytest.raises(ApiError) as error:
        await send(path, method=method)

    assert (error.value.code, error.value.details) == (405, {})


@pytest.mark.parametrize(
    ("group", "plural", "release", "expected"),
    [
        ("apiextensions.k8s.io", "customresourcedefinitions", "1.29", "jfWCUB31mvA="),
        ("autoscaling", "horizontalpodautoscalers", "1.36", "qwQve8ut294="),
        ("discovery.k8s.io", "endpointslices", "1.35", "Nx3SIv6I0mE="),
        ("discovery.k8s.io", "endpointslices", "1.36", "qgS0xkrxYAI="),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "1.36", "LYmCf+UMVdg="),
    ],
)
async def test_storage_version_hashes_are_those_of_kubernetes(
    group: str, plural: str, release: str, expected: str
) -> None:
    registry = build_registry(parse([f"--compatibility-version={release}"]))
    discovery = Discovery(registry, Remotes(Identity()), address, DiscoverySettings())
    info = RequestInfo("get", f"/apis/{group}/v1")
    request = Request("GET", info, Query(""), {}, b"", User("u"), PLAIN, Identity())

    reply = await discovery.respond(request)

    assert reply is not None and reply.body is not None
    found = {item["name"]: item.get("storageVersionHash") for item in json.loads(reply.body)["resources"]}
    assert found[plural] == expected


@pytest.mark.parametrize(("minor", "expected"), [(32, None), (33, "32"), (36, "35")])
def test_version_names_the_oldest_compatible_release_since_1_33(minor: int, expected: str | None) -> None:
    found = reported.version("", Release(1, minor))

    assert found.get("minCompatibilityMinor") == expected
    assert found.get("emulationMinor") == (str(minor) if expected else None)


async def document(path: str, **options: Any) -> Any:
    return json.loads((await send(path, **options)).pieces[0])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api", {"kind": "APIVersions", "versions": ["v1"]}),
        ("/api/v1", {"kind": "APIResourceList", "groupVersion": "v1"}),
        ("/apis/apps/v1", {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1"}),
        (
            "/apis/autoscaling",
            {
                "kind": "APIGroup",
                "apiVersion": "v1",
                "name": "autoscaling",
                "versions": [
                    {"groupVersion": "autoscaling/v2", "version": "v2"},
                    {"groupVersion": "autoscaling/v1", "version": "v1"},
                ],
                "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
            },
        ),
    ],
)
async def test_document_states_its_kind_and_group(path: str, expected: Any) -> None:
    found = await document(path)
    lists = {"resources", "serverAddressByClientCIDRs"}

    assert {name: value for name, value in found.items() if name not in lists} == expected


async def test_clients_find_the_address_of_the_server() -> None:
    addresses = (await document("/api"))["serverAddressByClientCIDRs"]

    assert addresses == [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]


@pytest.mark.parametrize("path", ["/api/v2", "/api/v1/x/y", "/apis/apps/v2", "/apis/apps/v1/x/y"])
async def test_unknown_version_of_a_group_is_not_found(path: str) -> None:
    with pytest.raises(ApiError, match="could not find the requested resource") as error:
        await send(path)

    assert error.value.code == 404


@pytest.mark.parametrize("path", ["/apis/unknown", "/apis/unknown/v1", "/other", "/versions"])
async def test_paths_of_no_group_are_not_those_of_discovery(path: str) -> None:
    with pytest.raises(PlainNotFound):
        await send(path)


async def test_resources_state_names_and_subresources() -> None:
    found = {item["name"]: item for item in (await document("/api/v1"))["resources"]}
    pods, node = found["pods"], found["nodes"]
    pods.pop("storageVersionHash")

    assert pods == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert found["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "kind": "Eviction",
        "verbs": ["create"],
        "group": "policy",
        "version": "v1",
    }
    assert found["pods/status"] == {
        "name": "pods/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "patch", "update"],
    }
    assert (node["namespaced"], "categories" in node) == (False, False)
    assert "shortNames" not in found["bindings"]
    without = await document("/api/v1", settings=DiscoverySettings(storage_hashes=False))
    assert not any("storageVersionHash" in item for item in without["resources"])


async def test_aggregated_document_states_names_and_subresources() -> None:
    (group,) = (await document("/api", Accept=AGGREGATED))["items"]
    (version,) = group["versions"]
    found = {item["resource"]: item for item in version["resources"]}
    pods = found["pods"]
    subresources = {item["subresource"]: item for item in pods.pop("subresources")}

    assert (version["version"], version["freshness"]) == ("v1", "Current")
    assert pods == {
        "resource": "pods",
        "responseKind": {"group": "", "version": "", "kind": "Pod"},
        "scope": "Namespaced",
        "singularResource": "pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert subresources["eviction"] == {
        "subresource": "eviction",
        "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "verbs": ["create"],
    }
    assert subresources["status"]["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert found["nodes"]["scope"] == "Cluster"
    assert {"shortNames", "categories", "subresources"}.isdisjoint(found["bindings"])
    groups = (await document("/apis", Accept=AGGREGATED))["items"]
    versions = {item["metadata"]["name"]: [found["version"] for found in item["versions"]] for item in groups}
    assert (versions["autoscaling"], versions["apps"]) == (["v2", "v1"], ["v1"])
    assert {"apps", "batch"} <= {item["metadata"]["name"] for item in groups}
    assert "" not in {item["metadata"].get("name", "") for item in groups}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (f"text/html,{AGGREGATED}", "APIGroupDiscoveryList"),
        (AGGREGATED.replace("application/json", "*/*"), "APIGroupDiscoveryList"),
        (f"application/json,{AGGREGATED}", "APIGroupList"),
        (f"{AGGREGATED.replace('v2beta1', 'v3')},application/json", "APIGroupList"),
        (f"{AGGREGATED.replace('apidiscovery', 'other')},application/json", "APIGroupList"),
        (f"{AGGREGATED.replace('APIGroupDiscoveryList', 'Table')},application/json", "APIGroupList"),
        ("application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io,application/json", "APIGroupList"),
        ("", "APIGroupList"),
    ],
)
async def test_first_supported_format_is_sent(accept: str, kind: str) -> None:
    assert (await document("/apis", Accept=accept))["kind"] == kind


@pytest.mark.parametrize(
    ("path", "available"), [("/apis", True), ("/apis/apps", True), ("/api", False), ("/apis/apps/v1", False)]
)
async def test_any_application_type_is_supported_for_groups(path: str, available: bool) -> None:
    if available:
        assert (await send(path, Accept="application/*")).content_type == "application/json"
        return
    with pytest.raises(ApiError) as error:
        await send(path, Accept="application/*")
    assert error.value.code == 406


async def test_version_is_sent_as_json_only() -> None:
    assert (await document("/version/", Accept="*/*"))["major"] == "1"
    settings = DiscoverySettings(reported_version="v1.29.9-own")
    assert (await document("/version", settings=settings))["gitVersion"] == "v1.29.9-own"
    with pytest.raises(ApiError) as error:
        await send("/version", Accept="application/yaml")
    assert error.value.code == 406


async def test_groups_of_extension_servers_are_listed_with_their_known_resources() -> None:
    remotes = Remotes(Identity())
    for version in ("v1", "v2"):
        remotes.table["demo.example.com", version] = remote("demo.example.com", version)
    remotes.discovered["demo.example.com", "v1"] = Discovered([{"resource": "widgets"}], fresh=True)

    groups = (await document("/apis", remotes=remotes, Accept=AGGREGATED))["items"]

    (found,) = (item["versions"] for item in groups if item["metadata"]["name"] == "demo.example.com")
    assert sorted(found, key=lambda item: str(item["version"])) == [
        {"version": "v1", "resources": [{"resource": "widgets"}], "freshness": "Current"},
        {"version": "v2", "freshness": "Stale"},
    ]
    assert (await document("/apis/demo.example.com", remotes=remotes))["name"] == "demo.example.com"
    assert "/apis/demo.example.com/v2" in (await document("/", remotes=remotes))["paths"]
