"""Tests for the API pod source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from nodeagent.contracts.api import PODS
from nodeagent.contracts.pods import PublishPods
from nodeagent.errors import ApiGone, ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.podworker.desired import is_static
from nodeagent.testing import FakeApi, FakeClock
from nodeagent_plugins.pod_source_api import ApiPodSource


class Published(list[list[str]]):
    """Names in each published set."""

    def __call__(self, pods: list[Pod]) -> None:
        self.append(sorted(pod.name for pod in pods))


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock)


@pytest.fixture
async def published(api: FakeApi, clock: FakeClock) -> AsyncIterator[Published]:
    sets = Published()
    publish: PublishPods = sets  # type: ignore[assignment]
    task = asyncio.create_task(ApiPodSource(api, "n1", clock).run(publish))
    yield sets
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def put(api: FakeApi, name: str, node: str = "n1") -> None:
    api.put(PODS, {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node, "containers": []}})


async def test_empty_set_is_published(published: Published, clock: FakeClock) -> None:
    await clock.advance(0)

    assert published == [[]]


async def test_pods_are_listed_after_the_node_is_available(api: FakeApi, clock: FakeClock) -> None:
    known, sets = asyncio.Event(), Published()

    async def node_known() -> None:
        await known.wait()

    source = ApiPodSource(api, "n1", clock, node_known=node_known)
    task = asyncio.create_task(source.run(sets))  # type: ignore[arg-type]
    await clock.advance(60)
    assert (sets, api.requests) == ([], [])
    known.set()
    await clock.advance(0)

    assert sets == [[]]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_only_pods_of_this_node_are_published(published: Published, api: FakeApi, clock: FakeClock) -> None:
    put(api, "a")
    put(api, "far", node="n2")

    await clock.advance(0)

    assert published == [[], ["a"]]


async def test_changes_are_published(published: Published, api: FakeApi, clock: FakeClock) -> None:
    await clock.advance(0)
    put(api, "a")
    await clock.advance(0)
    api.remove(PODS, "a")
    await clock.advance(0)

    assert published == [[], ["a"], []]


async def test_null_equals_an_unset_field(published: Published, api: FakeApi, clock: FakeClock) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": None}]}
    pod = {"metadata": {"name": "a", "uid": "a"}, "spec": {"nodeName": "n1", "containers": []}, "status": status}

    api.put(PODS, pod)
    await clock.advance(0)

    assert published[-1] == ["a"]


async def test_simultaneous_changes_are_published_once(published: Published, api: FakeApi, clock: FakeClock) -> None:
    await clock.advance(0)
    for name in ("a", "b", "c"):
        put(api, name)
    await clock.advance(0)

    assert published == [[], ["a", "b", "c"]]


async def test_pods_have_source_and_first_seen_annotations(api: FakeApi, clock: FakeClock) -> None:
    pods: list[Pod] = []
    task = asyncio.create_task(ApiPodSource(api, "n1", clock).run(pods.extend))
    claim = {"name": "web", "uid": "web", "annotations": {"kubernetes.io/config.source": "file", "note": "mine"}}
    api.put(PODS, {"metadata": claim, "spec": {"nodeName": "n1", "containers": []}})
    await clock.advance(0)
    api.put(PODS, {"metadata": {"name": "web", "uid": "web"}, "spec": {"nodeName": "n1", "containers": []}})
    await clock.advance(60)

    first, changed = (pod.metadata.annotations or {} for pod in (pods[0], pods[-1]))
    seen = first.pop("kubernetes.io/config.seen")
    assert first == {"kubernetes.io/config.source": "api", "note": "mine"}
    assert changed == {"kubernetes.io/config.source": "api", "kubernetes.io/config.seen": seen}
    assert not is_static(pods[0])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_watch_resumes_at_its_last_resource_version(published: Published, api: FakeApi, clock: FakeClock) -> None:
    await clock.advance(0)
    api.end_watches()
    put(api, "a")
    await clock.advance(10)

    assert published[-1] == ["a"]
    assert len(api.made("list")) == 1


async def test_expired_resource_version_causes_a_list(published: Published, api: FakeApi, clock: FakeClock) -> None:
    put(api, "a")
    await clock.advance(0)
    api.remove(PODS, "a")
    put(api, "b")
    api.expire()
    await clock.advance(10)

    assert published[-1] == ["b"]
    assert len(api.made("list")) == 2


async def test_last_set_remains_during_an_outage(published: Published, api: FakeApi, clock: FakeClock) -> None:
    put(api, "a")
    await clock.advance(0)
    api.outage = True
    await clock.advance(300)
    requested = len(api.requests)
    api.outage = False
    put(api, "b")
    await clock.advance(60)

    assert published == [[], ["a"], ["a", "b"]]
    assert requested < 30


async def test_immediate_failures_are_retried_later(published: Published, api: FakeApi, clock: FakeClock) -> None:
    for _ in range(1000):
        api.fail("watch", ApiGone("too old", code=410))
        api.fail("list", ApiUnavailable("away"))

    await clock.advance(60)

    assert len(api.requests) < 20


async def test_unknown_spec_fields_are_reported_once_per_generation(
    api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[tuple[str, str]] = []
    source = ApiPodSource(api, "n1", clock, report=lambda pod, note: notes.append((pod.name, note)))
    task = asyncio.create_task(source.run(lambda pods: None))
    plain = {
        "metadata": {"name": "a", "uid": "a", "generation": 1, "unknown": 1},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "turbo": True}], "#44": "AA=="},
    }
    api.put(PODS, plain)
    await clock.advance(0)
    api.put(PODS, plain | {"status": {"phase": "Running"}})
    await clock.advance(0)

    expected = "Pod has fields that this node does not recognize and ignores: spec.containers[0].turbo, spec.#44"
    assert notes == [("a", expected)]
    assert [record.message for record in caplog.records] == ["Pod has unknown fields, ignoring them"]

    api.put(PODS, plain | {"metadata": {"name": "a", "uid": "a", "generation": 2}})
    await clock.advance(0)
    assert len(notes) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
