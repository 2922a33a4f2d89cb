"""Tests for the pages with the options and the state of the server."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.endpoints.component_pages import ComponentPages, PageSettings
from apiserver_stub.options import parse
from apiserver_stub.options.effective import flag_values
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.testing import FakeClock

AS = "application/json;g=config.k8s.io;v={};as={}"


def request(path: str, accept: str = "") -> Request:
    info = RequestInfo("get", path)
    return Request("GET", info, Query(""), {"Accept": accept}, b"", User("u"), media.PLAIN, Identity())


def pages(clock: FakeClock, minor: int = 36, **served: bool) -> ComponentPages:
    def flags() -> dict[str, object]:
        return {"v": 2, "profiling": True, "runtime-config": {"api/all": "true"}}

    served = {"serves_flags": True, "serves_status": True} | served
    return ComponentPages(PageSettings(Release(1, minor), "", flags, **served), clock.wall(), clock)


async def body(pages: ComponentPages, path: str, accept: str = "") -> Any:
    reply = await pages.respond(request(path, accept))
    assert reply is not None and reply.body is not None
    return json.loads(reply.body) if accept else reply.body.decode()


async def test_flags_are_listed_with_their_values(clock: FakeClock) -> None:
    text = await body(pages(clock), "/flagz")
    found = await body(pages(clock), "/flagz", AS.format("v1beta1", "Flagz"))

    assert text.splitlines()[0] == "kube-apiserver flags"
    assert text.splitlines()[3:] == ["profiling=true", "runtime-config=api/all=true", "v=2"]
    assert (found["kind"], found["flags"]["v"]) == ("Flagz", "2")


async def test_status_has_uptime_and_versions(clock: FakeClock) -> None:
    served = pages(clock)
    await clock.advance(timedelta(hours=1, seconds=5).total_seconds())

    text = await body(served, "/statusz")
    found = await body(served, "/statusz", AS.format("v1beta1", "Statusz"))

    assert "Up: 1 hr 00 min 05 sec" in text
    assert "Compatibility version: 1.36" in text
    assert (found["uptimeSeconds"], found["emulationVersion"]) == (3605, "1.36")
    assert {"/flagz", "/metrics", "/statusz"} < set(found["paths"])


async def test_page_is_served_if_its_gate_is_enabled(clock: FakeClock) -> None:
    assert await pages(clock, serves_flags=False).respond(request("/flagz")) is None
    assert await pages(clock, serves_status=False).respond(request("/statusz")) is None
    assert await pages(clock).respond(request("/version")) is None


async def test_version_of_objects_depends_on_the_release(clock: FakeClock) -> None:
    alpha, beta = AS.format("v1alpha1", "Statusz"), AS.format("v1beta1", "Statusz")
    deprecated = request("/statusz", alpha)
    await pages(clock).respond(deprecated)

    assert "endpoint is deprecated" in deprecated.warnings[0]
    assert (await body(pages(clock, 35), "/statusz", alpha))["apiVersion"] == "config.k8s.io/v1alpha1"
    for minor, accept in ((35, beta), (34, alpha), (36, "application/json")):
        with pytest.raises(ApiError, match="only the following media types are accepted"):
            await pages(clock, minor).respond(request("/statusz", accept))


def test_values_of_options_have_the_form_of_the_command_line() -> None:
    values = flag_values(parse(["--service-node-port-range=30000-30100", "--request-timeout=90s", "-v=4"]))

    assert values["service-node-port-range"] == "30000-30100"
    assert values["request-timeout"] == "1m30s"
    assert values["v"] == 4
    assert values["secure-port"] == 6443
    assert "profiling" in values and "help" not in values


@pytest.mark.parametrize(("version", "expected"), [("", "1.36."), ("v1.36.7-own", "1.36.7-own")])
async def test_status_has_the_reported_version(clock: FakeClock, version: str, expected: str) -> None:
    settings = PageSettings(Release(1, 36), version, dict, serves_status=True)

    found = await body(ComponentPages(settings, clock.wall(), clock), "/statusz", AS.format("v1beta1", "Statusz"))

    assert found["binaryVersion"].startswith(expected)
