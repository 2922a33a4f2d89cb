"""Tests for ``/flagz`` and ``/statusz`` of the agent: feature gates, and versions by release."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.testing import make_config, make_context
from nodeagent_plugins.routes_pages import page_routes

GATES = ("ComponentFlagz", "ComponentStatusz")


def routes_of(tmp_path, clock, minor, *gates):
    enabled = SimpleNamespace(enabled=lambda gate: gate in gates)
    release, config = SelectedRelease(Release(1, minor)), make_config(max_pods=7)
    context = make_context(tmp_path, clock=clock, config=config, release=release, gates=enabled)
    return {route.path: route.handler for route in page_routes(context, clock.wall())}


async def get(handler, kind, version=""):
    accept = f"application/json;g=config.k8s.io;v={version};as={kind}" if version else ""
    application = web.Application()
    application.router.add_get("/pods/{name}", handler)
    application.router.add_get("/{other}", handler)
    return await handler(make_mocked_request("GET", "/", {"Accept": accept}, app=application))


@pytest.mark.parametrize("gate", GATES)
def test_page_is_served_with_its_gate(tmp_path, clock, gate):
    assert list(routes_of(tmp_path, clock, 36, gate)) == [f"/{gate.removeprefix('Component').lower()}"]


@pytest.mark.parametrize(("minor", "versions"), [(34, []), (35, ["v1alpha1"]), (36, ["v1alpha1", "v1beta1"])])
@pytest.mark.parametrize("kind", ["Flagz", "Statusz"])
async def test_versions_are_those_of_the_release(tmp_path, clock, minor, versions, kind):
    handler = routes_of(tmp_path, clock, minor, *GATES)[f"/{kind.lower()}"]

    responses = {version: await get(handler, kind, version) for version in ("v1alpha1", "v1beta1")}

    assert [version for version, response in responses.items() if response.status == 200] == versions
    for version in versions:
        found = json.loads(responses[version].body)
        assert (found["kind"], found["apiVersion"]) == (kind, f"config.k8s.io/{version}")
    assert {response.status for version, response in responses.items() if version not in versions} <= {406}


async def test_pages_are_text_without_a_version(tmp_path, clock):
    routes = routes_of(tmp_path, clock, 36, *GATES)

    assert "max-pods=7" in (await get(routes["/flagz"], "Flagz")).text
    assert "/pods" in (await get(routes["/statusz"], "Statusz")).text
