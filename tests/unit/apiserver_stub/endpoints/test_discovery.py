"""Tests for discovery documents: formats, caching and methods."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.apimachinery import version as reported
from apiserver_stub.apimachinery.media import PLAIN, PRETTY, Format
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.endpoints.discovery import Discovery, DiscoverySettings, aggregated_versions
from apiserver_stub.endpoints.issuer_discovery import IssuerDiscovery
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.options import parse
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.subresources import Handlers
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

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
    **headers: str,
) -> Rendered:
    options = parse([])
    tokens: Any = SimpleNamespace(
        issuer="https://issuer.example", keys=SimpleNamespace(published=(), max_age_seconds=60)
    )
    endpoints = [
        Discovery(build_registry(options), Remotes(Identity()), address, settings or DiscoverySettings()),
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
