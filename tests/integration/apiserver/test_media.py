"""Tests that all kinds are served in all media types."""

from __future__ import annotations

import base64
import gzip
import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession, WSMsgType

from apiserver_stub.endpoints.openapi.proto.v2_pb2 import Document
from nodeagent.base import apiproto
from tests.integration.apiserver.conftest import Api, Server
from tests.integration.programs import wait_until

PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"
PARTIAL = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
TABLE = "as=Table;v=v1;g=meta.k8s.io"
STREAMED = ("attach", "exec", "portforward", "proxy")
"""Streaming subresources; the kinds that discovery lists for them are never sent."""
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    everything = ("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true")
    found = Server(tmp_path_factory.mktemp("apiserver"), *everything)
    api = found.api()
    wait_until(lambda: api.raw("GET", "/readyz")[0] == 200, "storage versions are registered")
    yield found
    assert found.stop() == 0


def resource_lists(api: Api) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each group version's path with its document."""
    paths = ["/api/v1"]
    for group in api.ok("GET", "/apis")["groups"]:
        paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for path in paths:
        yield path, api.ok("GET", path)


def test_every_kind_in_discovery_has_a_protobuf_form(api: Api) -> None:
    missing = []
    for _, document in resource_lists(api):
        for item in document["resources"]:
            if item["name"].partition("/")[2] in STREAMED:
                continue
            version = item.get("version") or document["groupVersion"]
            if item.get("group"):
                version = f"{item['group']}/{version}"
            kinds = [item["kind"]] + ([f"{item['kind']}List"] if "list" in item["verbs"] else [])
            missing += [f"{version} {kind}" for kind in kinds if not apiproto.supports(version, kind)]
    assert missing == []


@pytest.mark.parametrize("accept", [PROTOBUF, YAML, "application/json"])
def test_every_resource_lists_in_each_form(api: Api, accept: str) -> None:
    decode = {PROTOBUF: apiproto.decode, YAML: yaml.safe_load}.get(accept, json.loads)
    for root, document in resource_lists(api):
        for item in document["resources"]:
            if "list" not in item["verbs"]:
                continue
            path = f"{root}/{item['name']}"
            code, headers, body = api.raw("GET", path, headers={"Accept": accept})
            assert (code, headers["content-type"]) == (200, accept), path
            listed = decode(body)
            assert (listed["kind"], listed["apiVersion"]) == (f"{item['kind']}List", document["groupVersion"])
            plain = api.ok("GET", path)["items"]
            assert names(listed["items"]) == names(plain)


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


def events_of(body: bytes, encoding: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a completed watch."""
    if encoding == PROTOBUF:
        return apiproto.WatchFrameDecoder().feed(body)
    return [(event["type"], event["object"]) for event in map(json.loads, body.splitlines())]


@pytest.mark.parametrize(
    ("accept", "code", "content_type"),
    [
        ("application/json", 200, "application/json"),
        (PROTOBUF, 200, f"{PROTOBUF};stream=watch"),
        (YAML, 406, YAML),
    ],
)
def test_watch_events_are_framed_by_media_type(api: Api, accept: str, code: int, content_type: str) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    responded, headers, body = api.raw("GET", f"{path}?watch=1&timeoutSeconds=1", headers={"Accept": accept})
    assert (responded, headers["content-type"]) == (code, content_type)
    if code == 200:
        plain = api.ok("GET", path)["items"]
        assert events_of(body, accept) == [
            ("ADDED", {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1"} | item) for item in plain
        ]


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "by-protobuf"}}),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "metadata": {"name": "web"},
                "spec": {
                    "rules": [
                        {
                            "host": "a.example",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                    }
                                ]
                            },
                        }
                    ]
                },
            },
        ),
        (
            "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies",
            {
                "apiVersion": "admissionregistration.k8s.io/v1beta1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": "small"},
                "spec": {
                    "matchConstraints": {
                        "resourceRules": [
                            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                        ]
                    },
                    "validations": [{"expression": "object.metadata.name != 'x'"}],
                },
            },
        ),
    ],
)
def test_object_written_as_protobuf_is_read_in_every_form(api: Api, path: str, obj: dict[str, Any]) -> None:
    code, headers, body = api.raw(
        "POST", path, apiproto.encode(obj), content_type=PROTOBUF, headers={"Accept": PROTOBUF}
    )
    assert (code, headers["content-type"]) == (201, PROTOBUF), body
    location = f"{path}/{obj['metadata']['name']}"
    try:
        made = apiproto.decode(body)
        spec = api.ok("GET", location).get("spec")
        if "spec" in obj:
            assert made["spec"] == spec
            assert (
                spec.items() >= {key: value for key, value in obj["spec"].items() if key != "matchConstraints"}.items()
            )
        assert yaml.safe_load(api.raw("GET", location, headers={"Accept": YAML})[2]).get("spec") == spec
        again = apiproto.decode(api.raw("GET", location, headers={"Accept": PROTOBUF})[2])
        assert again["metadata"]["uid"] == made["metadata"]["uid"]
    finally:
        api.call("DELETE", location)


def test_yaml_and_json_bodies_are_equivalent(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  answer: '42'\n"
    made = api.ok("POST", MAPS, text, content_type=YAML)
    assert made["data"] == {"answer": "42"}
    code, headers, body = api.raw("DELETE", f"{MAPS}/from-yaml", headers={"Accept": YAML})
    assert (code, headers["content-type"], yaml.safe_load(body)["kind"]) == (200, YAML, "Status")


@pytest.mark.parametrize("encoding", ["application/json", PROTOBUF])
def test_partial_metadata_and_tables_are_served_on_request(api: Api, encoding: str) -> None:
    decode = apiproto.decode if encoding == PROTOBUF else json.loads
    location = "/api/v1/namespaces"
    code, headers, body = api.raw("GET", f"{location}/default", headers={"Accept": f"{encoding};{PARTIAL}"})
    assert (code, headers["content-type"]) == (200, encoding)
    one = decode(body)
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"]["name"] == "default"
    assert "spec" not in one
    listed = decode(api.raw("GET", location, headers={"Accept": f"{encoding};{PARTIAL_LIST}"})[2])
    assert listed["kind"] == "PartialObjectMetadataList"
    assert "default" in {item["metadata"]["name"] for item in listed["items"]}
    code, headers, body = api.raw("GET", location, headers={"Accept": f"{encoding};{TABLE}"})
    if encoding == PROTOBUF:
        assert code == 406
    else:
        table = json.loads(body)
        assert (table["kind"], table["columnDefinitions"][0]["name"]) == ("Table", "Name")
        assert {row["object"]["kind"] for row in table["rows"]} == {"PartialObjectMetadata"}
    query = (
        "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    _, _, body = api.raw("GET", location + query, headers={"Accept": f"{encoding};{PARTIAL}"})
    events = events_of(body, encoding)
    assert {obj["kind"] for _, obj in events} == {"PartialObjectMetadata"}
    assert "BOOKMARK" in {kind for kind, _ in events}


def test_bookmark_is_an_empty_object_or_row(api: Api) -> None:
    query = (
        "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    pods = f"/api/v1/namespaces/default/pods{query}&fieldSelector=metadata.name%3Dzz"

    _, _, plain = api.raw("GET", pods)
    _, _, table = api.raw("GET", pods, headers={"Accept": f"application/json;{TABLE}"})

    ((kind, obj),) = events_of(plain, "application/json")
    assert (kind, obj["spec"], obj["status"]) == ("BOOKMARK", {"containers": None}, {})
    ((kind, obj),) = events_of(table, "application/json")
    assert (kind, [row["cells"][0] for row in obj["rows"]]) == ("BOOKMARK", [""])
    assert "k8s.io/initial-events-end" in obj["rows"][0]["object"]["metadata"]["annotations"]


def test_aggregated_discovery_has_the_preferred_version(api: Api) -> None:
    first = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    other = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList"
    for path in ("/api", "/apis"):
        code, headers, body = api.raw("GET", path, headers={"Accept": f"{other}, {first}, application/json"})
        assert (code, headers["content-type"]) == (200, first)
        assert json.loads(body)["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
        assert api.raw("GET", path, headers={"Accept": other})[0] == 406
        plain = api.raw("GET", path, headers={"Accept": f"application/json;q=0.9,{first};q=0.2"})
        assert plain[1]["content-type"] == "application/json"
        assert api.raw("GET", path, headers={"Accept": f"{PROTOBUF}, */*"})[0] == 200
        assert yaml.safe_load(api.raw("GET", path, headers={"Accept": YAML})[2])["kind"].startswith("API")


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/events.k8s.io", "/apis/events.k8s.io/v1"])
def test_discovery_has_a_protobuf_form(api: Api, path: str) -> None:
    plain = api.ok("GET", path)

    code, headers, body = api.raw("GET", path, headers={"Accept": PROTOBUF})

    assert (code, headers["content-type"]) == (200, PROTOBUF)
    found = apiproto.decode(body)
    assert _filled(found) == _filled(plain)


def test_aggregated_discovery_has_a_protobuf_form(api: Api) -> None:
    aggregated = "g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    plain = api.ok("GET", "/apis", headers={"Accept": f"application/json;{aggregated}"})

    code, headers, body = api.raw("GET", "/apis", headers={"Accept": f"{PROTOBUF};{aggregated}"})

    assert (code, headers["content-type"]) == (200, f"{PROTOBUF};{aggregated}")
    assert _filled(apiproto.decode(body)) == _filled(plain)


def _filled(value: Any) -> Any:
    """Return *value* without empty values and API versions, which JSON partly omits."""
    if isinstance(value, dict):
        return {name: _filled(content) for name, content in value.items() if content and name != "apiVersion"}
    return [_filled(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/events.k8s.io/v1"])
def test_discovery_has_no_table(api: Api, path: str) -> None:
    code, error = api.call("GET", path, headers={"Accept": f"application/json;{TABLE}"})

    assert code == 406
    assert error["message"].startswith("only the following media types are accepted: application/json, ")


REVIEW = ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": {"path": "/"}}})


@pytest.mark.parametrize(
    ("path", "body"), [REVIEW, ("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})]
)
def test_response_that_is_not_stored_has_no_table(api: Api, path: str, body: Any) -> None:
    code, error = api.call("POST", path, body, headers={"Accept": f"application/json;{TABLE}"})
    assert (code, error["reason"]) == (406, "NotAcceptable")
    created = api.ok("POST", path, body, headers={"Accept": f"application/json;{TABLE},application/json"})
    assert created["kind"] in ("SelfSubjectAccessReview", "TokenRequest")
    partial = api.ok("POST", path, body, headers={"Accept": f"application/json;{PARTIAL}"})
    assert partial["kind"] == "PartialObjectMetadata"


def test_error_is_never_a_table(api: Api) -> None:
    _, headers, _ = api.raw("GET", f"{MAPS}/nope", headers={"Accept": f"{PROTOBUF};{PARTIAL}"})
    assert headers["content-type"] == "application/json"
    _, headers, _ = api.raw("GET", f"{MAPS}/nope", headers={"Accept": f"{PROTOBUF};{PARTIAL}, {YAML}"})
    assert headers["content-type"] == YAML


def test_version_is_json_only(api: Api) -> None:
    assert api.call("GET", "/version", headers={"Accept": f"application/json;{TABLE}"})[0] == 200
    code, headers, _ = api.raw("GET", "/version", headers={"Accept": YAML})
    assert (code, headers["content-type"]) == (406, YAML)


def test_openapi_document_is_json_or_protobuf(api: Api) -> None:
    given = api.ok("GET", "/openapi/v2", headers={"Accept": "application/json"})
    assert api.ok("GET", "/openapi/v2", headers={"Accept": "text/plain, */*;q=0.5"}) == given
    for requested in ("spec.v2@v1.0", "spec.v2.v1.0"):
        binary = f"application/com.github.proto-openapi.{requested}+protobuf"
        code, headers, body = api.raw("GET", "/openapi/v2", headers={"Accept": f"application/json;q=0.5, {binary}"})
        document = Document.FromString(body)
        assert (code, headers["content-type"]) == (200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
        assert {item.name for item in document.definitions.additional_properties} == set(given["definitions"])
    again = {"Accept": binary, "If-None-Match": headers["etag"]}
    assert api.raw("GET", "/openapi/v2", headers=again)[0] == 304
    code, _, body = api.raw("GET", "/openapi/v2", headers={"Accept": "text/plain"})
    assert (code, body) == (406, b"")


def test_long_responses_are_compressed_on_request(api: Api) -> None:
    data = {"k": base64.b64encode(bytes(range(256)) * 600).decode()}
    api.ok("POST", MAPS, {"metadata": {"name": "long"}, "data": data})
    try:
        _, headers, body = api.raw("GET", f"{MAPS}/long", headers={"Accept-Encoding": "gzip"})
        assert headers["content-encoding"] == "gzip"
        assert json.loads(gzip.decompress(body))["data"] == data
    finally:
        api.ok("DELETE", f"{MAPS}/long")


async def test_watch_over_websocket_sends_messages(server: Server) -> None:
    url, token = f"{server.ready['url']}{MAPS}", server.ready["token"]
    trusted = ssl.create_default_context(cafile=server.ready["caFile"])
    hidden = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    offered = (f"base64url.bearer.authorization.k8s.io.{hidden}", "base64.binary.k8s.io")
    async with ClientSession() as session:
        async with session.ws_connect(f"{url}?watch=1&timeoutSeconds=1", ssl=trusted, protocols=offered) as socket:
            reported = [message async for message in socket]
            assert (socket.protocol, socket.close_code) == ("base64.binary.k8s.io", 1000)
        assert {message.type for message in reported} == {WSMsgType.TEXT}
        assert {json.loads(message.data)["type"] for message in reported} == {"ADDED"}

        headers = {"Authorization": f"Bearer {token}", "Accept": f"{PROTOBUF};stream=watch"}
        async with session.ws_connect(f"{url}?watch=1", ssl=trusted, headers=headers) as socket:
            data = await socket.receive_bytes()
        ((kind, obj),) = events_of(len(data).to_bytes(4, "big") + data, PROTOBUF)
        assert (kind, obj["kind"]) == ("ADDED", "ConfigMap")

        wrong = {"Authorization": f"Bearer {token}", "Upgrade": "websocket", "Connection": "Upgrade"}
        async with session.get(f"{url}?watch=1", ssl=trusted, headers=wrong) as response:
            assert response.status == 400
