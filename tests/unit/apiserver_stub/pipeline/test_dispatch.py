"""Tests for the dispatch of requests: paths, methods and verbs that are served."""

from __future__ import annotations

from apiserver_stub.apimachinery.request import Request
from apiserver_stub.verbs.responses import Reply
from tests.unit.apiserver_stub.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
NODES, NAMESPACES = "/api/v1/nodes", "/api/v1/namespaces"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


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
    await api.create(NAMESPACES, {"metadata": {"name": "x"}})
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
        ("GET", f"{NAMESPACES}/x", 200),
        ("GET", f"{NAMESPACES}/x/status", 200),
        ("GET", f"{NAMESPACES}/x/namespaces/y", 404),
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
