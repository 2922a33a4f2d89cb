"""Tests for the HTTP pod source."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from types import SimpleNamespace

import pytest

from nodeagent.base.duration import Duration
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent_plugins import pod_source_http
from nodeagent_plugins.pod_source_http import Fetcher, FetchError, HttpPodSource

URL = "http://config.test/pods"


def pod(name, image="a:1", **extra):
    metadata = {"name": name}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}]}, **extra}


def one(name, image="a:1"):
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **pod(name, image)}).encode()


class FakeUrl:
    """Returns the response set by the test."""

    def __init__(self, response):
        self.response, self.requested = response, 0

    async def __call__(self):
        self.requested += 1
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


@pytest.fixture
async def run(clock):
    tasks = []

    async def start(url, seconds=20):
        sets = []
        source = HttpPodSource(URL, url, "node-1", clock, seconds)
        tasks.append(asyncio.create_task(source.run(lambda pods: sets.append(list(pods)))))
        await clock.advance(0)
        return sets

    yield start
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_one_pod_is_published(run):
    ((web,),) = await run(FakeUrl(one("web")))
    assert (web.full_name, web.spec.node_name) == ("default/web-node-1", "node-1")
    assert web.metadata.annotations["kubernetes.io/config.source"] == "http"
    assert not web.spec.tolerations


async def test_pod_list_is_published(run):
    body = {"apiVersion": "v1", "kind": "PodList", "items": [pod("a"), pod("b")]}
    (pods,) = await run(FakeUrl(json.dumps(body).encode()))
    assert [p.name for p in pods] == ["a-node-1", "b-node-1"]
    assert len({p.uid for p in pods}) == 2


@pytest.mark.row("config.httpCheckFrequency")
async def test_url_is_requested_at_the_configured_interval(tmp_path, clock):
    url = FakeUrl(one("web"))
    config = make_config(static_pod_url=URL, http_check_frequency=Duration.of(seconds=45))
    context = make_context(tmp_path, config=config, clock=clock)
    (response,) = load_plugin(pod_source_http).provide_all("nodeagent_provide_pod_sources", context=context)
    (source,) = response.value
    source._fetch = url
    task = asyncio.create_task(source.run(lambda pods: None))

    await clock.advance(44)
    assert url.requested == 1
    await clock.advance(46)
    assert url.requested == 3
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_unchanged_response_is_not_published_again(run, clock):
    url = FakeUrl(one("web"))
    sets = await run(url)
    await clock.advance(60)
    assert len(sets) == 1
    url.response = one("web", "a:2")
    await clock.advance(20)
    assert [pods[0].spec.containers[0].image for pods in sets] == ["a:1", "a:2"]


async def test_empty_response_is_an_empty_set(run, clock):
    url = FakeUrl(one("web"))
    sets = await run(url)
    url.response = b"\n"
    await clock.advance(20)
    assert sets[-1] == []


@pytest.mark.parametrize("response", [FetchError("status 500"), b"[", b"kind: Deployment", one("Bad_Name"), b"{}"])
async def test_invalid_response_does_not_change_the_pods(run, clock, caplog, response):
    url = FakeUrl(one("web"))
    sets = await run(url)
    url.response = response
    await clock.advance(20)
    assert len(sets) == 1
    assert [r.__dict__["url"] for r in caplog.records] == [URL]


async def test_unknown_fields_are_logged_once(run, clock, caplog):
    body = {"kind": "PodList", "items": [pod("a", volumez=[])]}
    assert len(await run(FakeUrl(json.dumps(body).encode()))) == 1
    await clock.advance(60)
    assert [(r.__dict__["url"], r.__dict__["fields"]) for r in caplog.records] == [(URL, "volumez")]


async def test_one_invalid_pod_rejects_the_list(run):
    body = {"kind": "PodList", "items": [pod("a"), pod("Bad_Name")]}
    assert await run(FakeUrl(json.dumps(body).encode())) == []


async def test_failures_are_logged_at_increasing_intervals_and_recovery_once(run, clock, caplog):
    caplog.set_level(logging.INFO)
    url = FakeUrl(FetchError("refused"))
    await run(url)
    await clock.advance(20 * 8)
    assert [r.__dict__["failures"] for r in caplog.records] == [1, 2, 4, 8]
    url.response = b""
    await clock.advance(40)
    assert [r.getMessage() for r in caplog.records[4:]] == ["Successfully read pods from URL"]


def test_header_values_are_masked():
    assert "secret" not in repr(Fetcher(URL, {"Authorization": ["secret"]}))


def test_no_source_without_a_url(tmp_path):
    (response,) = load_plugin(pod_source_http).provide_all(
        "nodeagent_provide_pod_sources", context=make_context(tmp_path)
    )
    assert response.value == ()


@pytest.mark.parametrize(("size", "is_accepted"), [(10, True), (11, False)])
async def test_response_has_a_limit(monkeypatch, size, is_accepted):
    monkeypatch.setattr(pod_source_http, "MAX_BYTES", 10)

    async def chunks(_size):
        for _ in range(size):
            yield b"x"

    response = SimpleNamespace(content=SimpleNamespace(iter_chunked=chunks))
    if is_accepted:
        assert await pod_source_http._body(response) == b"x" * size
    else:
        with pytest.raises(FetchError, match="the response exceeds 10 bytes"):
            await pod_source_http._body(response)
