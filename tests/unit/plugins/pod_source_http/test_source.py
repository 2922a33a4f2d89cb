"""The URL source publishes what it is told, and keeps the pods when it is told nothing usable."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

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
    """Answers what it is set to."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    async def __call__(self):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


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


async def test_publishes_one_pod(run):
    ((web,),) = await run(FakeUrl(one("web")))
    assert (web.full_name, web.spec.node_name) == ("default/web-node-1", "node-1")
    assert web.metadata.annotations["kubernetes.io/config.source"] == "http"
    assert not web.spec.tolerations


async def test_publishes_a_pod_list(run):
    body = {"apiVersion": "v1", "kind": "PodList", "items": [pod("a"), pod("b")]}
    (pods,) = await run(FakeUrl(json.dumps(body).encode()))
    assert [p.name for p in pods] == ["a-node-1", "b-node-1"]
    assert len({p.uid for p in pods}) == 2


@pytest.mark.row("config.httpCheckFrequency")
async def test_asks_again_at_the_configured_frequency(tmp_path, clock):
    url = FakeUrl(one("web"))
    config = make_config(static_pod_url=URL, http_check_frequency=Duration.of(seconds=45))
    context = make_context(tmp_path, config=config, clock=clock)
    (answer,) = load_plugin(pod_source_http).provide_all("nodeagent_provide_pod_sources", context=context)
    (source,) = answer.value
    source._fetch = url
    task = asyncio.create_task(source.run(lambda pods: None))

    await clock.advance(44)
    assert url.asked == 1
    await clock.advance(46)
    assert url.asked == 3
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_publishes_again_only_when_the_bytes_change(run, clock):
    url = FakeUrl(one("web"))
    sets = await run(url)
    await clock.advance(60)
    assert len(sets) == 1
    url.answer = one("web", "a:2")
    await clock.advance(20)
    assert [pods[0].spec.containers[0].image for pods in sets] == ["a:1", "a:2"]


async def test_an_empty_answer_is_an_empty_set(run, clock):
    url = FakeUrl(one("web"))
    sets = await run(url)
    url.answer = b"\n"
    await clock.advance(20)
    assert sets[-1] == []


@pytest.mark.parametrize("answer", [FetchError("status 500"), b"[", b"kind: Deployment", one("Bad_Name"), b"{}"])
async def test_an_unusable_answer_leaves_the_pods(run, clock, caplog, answer):
    url = FakeUrl(one("web"))
    sets = await run(url)
    url.answer = answer
    await clock.advance(20)
    assert len(sets) == 1
    assert [r.__dict__["url"] for r in caplog.records] == [URL]


async def test_fields_that_no_pod_has_are_named_once(run, clock, caplog):
    body = {"kind": "PodList", "items": [pod("a", volumez=[])]}
    assert len(await run(FakeUrl(json.dumps(body).encode()))) == 1
    await clock.advance(60)
    assert [(r.__dict__["url"], r.__dict__["fields"]) for r in caplog.records] == [(URL, "volumez")]


async def test_one_bad_pod_of_a_list_leaves_all_as_they_are(run):
    body = {"kind": "PodList", "items": [pod("a"), pod("Bad_Name")]}
    assert await run(FakeUrl(json.dumps(body).encode())) == []


async def test_failures_are_logged_ever_more_seldom_and_recovery_once(run, clock, caplog):
    caplog.set_level(logging.INFO)
    url = FakeUrl(FetchError("refused"))
    await run(url)
    await clock.advance(20 * 8)
    assert [r.__dict__["failures"] for r in caplog.records] == [1, 2, 4, 8]
    url.answer = b""
    await clock.advance(40)
    assert [r.getMessage() for r in caplog.records[4:]] == ["Static pod URL is usable again"]


def test_header_values_are_not_shown():
    assert "secret" not in repr(Fetcher(URL, {"Authorization": ["secret"]}))


def test_no_url_no_source(tmp_path):
    (answer,) = load_plugin(pod_source_http).provide_all(
        "nodeagent_provide_pod_sources", context=make_context(tmp_path)
    )
    assert answer.value == ()
