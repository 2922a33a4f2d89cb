"""Tests for the dispatch of requests: paths, methods and verbs that are served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.stream import StreamHandler
from apiserver_stub.pipeline.dispatch import Dispatcher
from apiserver_stub.subresources import Handlers, Key
from apiserver_stub.verbs.responses import Reply
from nodeagent.base import tracing
from tests.unit.apiserver_stub.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
NODES, NAMESPACES = "/api/v1/nodes", "/api/v1/namespaces"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def _unused(_: object) -> None:
    """Handle a stream."""


STREAMS: dict[Key, StreamHandler] = {
    ("", plural, subresource): _unused
    for plural, subresource in (("pods", "log"), ("pods", "proxy"), ("nodes", "proxy"))
}


class Pages:
    """Endpoint with two paths."""

    def __init__(self, *, read_only: bool) -> None:
        self.read_only = read_only

    async def respond(self, request: Request) -> Reply | None:
        if request.info.path not in ("/", "/page", "/debug/"):
            return None
        return Reply(200, body=request.info.path.encode(), content_type="text/plain")


async def test_paths_and_methods_that_are_not_served() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    await api.create(PODS, POD)
    await api.create(NODES, {"metadata": {"name": "n"}})
    for name in ("x", "y"):
        await api.create(NAMESPACES, {"metadata": {"name": name}})
    for method, target, code in (
        ("GET", MAPS, 200),
        ("HEAD", MAPS, 405),
        ("GET", f"{MAPS}/a", 200),
        ("GET", "/api/v1/configmaps", 200),
        ("GET", "/api/v1/configmaps/a", 405),
        ("POST", f"{MAPS}/a", 405),
        ("PUT", MAPS, 405),
        ("PATCH", MAPS, 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("OPTIONS", MAPS, 405),
        ("GET", f"{MAPS}/a/status", 404),
        ("GET", f"{PODS}/p/status", 200),
        ("POST", f"{PODS}/p/status", 405),
        ("GET", f"{PODS}/p/eviction", 405),
        ("GET", "/api/v1/namespaces/default/unknown", 404),
        ("GET", "/apis/apps/v9/namespaces/default/deployments", 404),
        ("GET", "/apis/unknown.example.com/v1/things", 404),
        ("GET", f"{NODES}/n", 200),
        ("GET", f"{NAMESPACES}/x/nodes/n", 404),
        ("GET", f"{NAMESPACES}/x/nodes", 404),
        ("GET", f"{NAMESPACES}/n/nodes/n", 404),
        ("GET", f"{NAMESPACES}/x", 200),
        ("GET", f"{NAMESPACES}/x/status", 200),
        ("GET", f"{NAMESPACES}/x/namespaces/y", 404),
        ("GET", f"{NAMESPACES}/y", 200),
        ("GET", f"{NAMESPACES}/x/namespaces/x", 200),
        ("DELETE", NAMESPACES, 405),
        ("GET", "/unknown", 404),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews/x", 405),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405),
        ("GET", "/api/v1/componentstatuses", 200),
    ):
        assert (await api.request(method, target)).code == code, (method, target)


async def test_unknown_group_and_path_are_plain_text() -> None:
    api = Api()
    for target in ("/unknown", "/apis/unknown.example.com/v1/things"):
        response = await api.get(target)
        assert (response.code, response.body) == (404, b"404 page not found\n"), target
    known = await api.get("/apis/apps/v9/namespaces/default/deployments")
    assert known.message == "the server could not find the requested resource"


async def test_endpoints_respond_with_and_without_a_slash_at_the_end() -> None:
    for read_only, method, target, code, body in (
        (True, "GET", "/page", 200, b"/page"),
        (True, "GET", "/page/", 200, b"/page"),
        (True, "HEAD", "/page", 200, b"/page"),
        (True, "GET", "/", 200, b"/"),
        (True, "POST", "/", 200, b"/"),
        (True, "POST", "/page", 405, None),
        (False, "POST", "/page", 200, b"/page"),
        (True, "GET", "/other", 404, None),
    ):
        api = Api(endpoints=[Pages(read_only=read_only)])
        response = await api.request(method, target)
        assert response.code == code, (read_only, method, target)
        assert body is None or response.body == body, (read_only, method, target)


async def test_deprecated_versions_have_a_warning() -> None:
    api = Api()
    deprecated = await api.get("/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas")
    current = await api.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    assert (deprecated.code, current.code, current.warnings) == (200, 200, [])
    assert "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+" in deprecated.warnings[0]


async def test_new_namespaces_are_filled() -> None:
    api = Api()
    await api.create(f"{NAMESPACES}?dryRun=All", {"metadata": {"name": "x"}})
    await api.create(MAPS, config_map("a"))
    before = list(api.filled)
    namespace = await api.create(NAMESPACES, {"metadata": {"name": "x"}})
    created = list(api.filled)
    await api.request("PUT", f"{NAMESPACES}/x", namespace)
    assert (before, created, api.filled) == ([], ["x"], ["x"])


async def test_reviews_are_not_stored() -> None:
    api = Api()
    review = {"spec": {"user": "alice", "nonResourceAttributes": {"verb": "get", "path": "/"}}}
    response = await api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert (response.code, response.obj["status"], api.store.writes) == (201, {"allowed": False}, 0)


async def test_requests_may_be_rejected_before_their_resource_is_known() -> None:
    def reject(info: RequestInfo) -> None:
        raise ApiError(503, "ServiceUnavailable", info.resource)

    unused: Any = None
    for path, code in (("/api/v1/unknown", 503), ("/unknown", 404)):
        request: Any = SimpleNamespace(info=parse_path("GET", path, Query("")), method="GET")
        with pytest.raises(ApiError) as error:
            await Dispatcher(unused, Handlers(), (), unused, reject).dispatch(request, None)
        assert error.value.code == code, path


async def test_paths_and_methods_of_streams_that_are_not_served() -> None:
    dispatcher = Dispatcher(None, Handlers(streams=STREAMS), (), None)  # type: ignore[arg-type]
    registry = Api().registry
    for method, target, code in (
        ("GET", f"{PODS}/p", None),
        ("GET", f"{PODS}/p/status", None),
        ("GET", f"{PODS}/p/unknown", None),
        ("GET", f"{PODS}/p/log", 0),
        ("POST", f"{PODS}/p/log", 405),
        ("HEAD", f"{PODS}/p/log", 405),
        ("GET", f"{PODS}/p/log/x", 404),
        ("GET", f"{PODS}/p/proxy", 0),
        ("GET", f"{PODS}/p/proxy/a/b", 0),
        ("GET", "/api/v1/pods/p/log", 404),
        ("GET", f"{NODES}/n/proxy/a", 0),
        ("GET", f"{NAMESPACES}/x/nodes/n/proxy", 404),
    ):
        info = parse_path(method, target, Query(""))
        resource = registry.find(info.group, info.version, info.resource)
        assert resource is not None
        try:
            found: Any = dispatcher.streams(resource, info, method)
        except ApiError as error:
            found = error.code
        assert found == (code or code is not None), (method, target)


async def test_watches_that_are_not_served() -> None:
    api = Api()
    for method, target, code in (
        ("GET", f"{MAPS}?watch=1", 200),
        ("POST", f"/api/v1/watch{MAPS.removeprefix('/api/v1')}", 405),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps/a", 405),
        ("HEAD", f"{MAPS}?watch=1", 405),
        ("GET", "/api/v1/watch/namespaces/default/pods/p/status", 404),
        ("GET", "/api/v1/watch/unknown", 404),
        ("GET", f"{NAMESPACES}/x/nodes?watch=1", 404),
        ("GET", f"{NAMESPACES}?watch=1", 200),
    ):
        if code == 200:
            assert (await api.watch(target)).code == code, (method, target)
        else:
            assert (await api.request(method, target)).code == code, (method, target)


async def test_spans_name_the_resource_and_the_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[tuple[str, Any]] = []

    async def during(name: str, work: Any, attributes: Any, request: Any) -> Any:
        spans.append((name, attributes(request)))
        return await work

    monkeypatch.setattr(tracing, "during", lambda name, work, *rest: during(name, work, *rest) if rest else work)
    api = Api()
    for target, name, resource, scope in (
        (f"{PODS}/p/status", "Get", "pods/status", "resource"),
        (PODS, "List", "pods", "namespace"),
        ("/api/v1/pods", "List", "pods", "cluster"),
    ):
        await api.get(target, User_Agent="kubectl")
        found, attributes = spans.pop()
        assert (found, attributes["resource"], attributes["scope"]) == (name, resource, scope), target
        assert (attributes["url"], attributes["user-agent"]) == (target, "kubectl"), target
