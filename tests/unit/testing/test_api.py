"""Tests for the fake API client: versions, conflicts, patches, watches, graceful deletion, outages."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.api import CONFIG_MAPS, NODES, PODS, SERVICE_ACCOUNTS, PatchType, WatchType
from nodeagent.errors import ApiConflict, ApiGone, ApiNotFound, ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, make_pod


@pytest.fixture
async def api(clock):
    return FakeApi(clock)


def config_map(name, **data):
    return {"metadata": {"name": name}, "data": data}


async def collect(stream, into):
    async for event in stream:
        into.append((event.type, event.object["metadata"]["name"]))


@pytest.fixture
async def watch(api, clock):
    tasks = []

    async def start(resource, **options):
        seen = []
        version = options.pop("resource_version", None) or (await api.list(resource, into=dict)).resource_version
        tasks.append(
            asyncio.create_task(collect(api.watch(resource, into=dict, resource_version=version, **options), seen))
        )
        await clock.advance(0)
        return seen, tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_objects_are_created_read_updated_and_deleted(api):
    created = await api.create(CONFIG_MAPS, config_map("a", k="1"), "default")
    assert created["metadata"]["uid"] and created["metadata"]["namespace"] == "default"
    with pytest.raises(ApiConflict):
        await api.create(CONFIG_MAPS, config_map("a"), "default")

    created["data"]["k"] = "2"
    updated = await api.update(CONFIG_MAPS, "a", created, "default")
    with pytest.raises(ApiConflict):
        await api.update(CONFIG_MAPS, "a", created, "default")
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])

    with pytest.raises(ApiConflict):
        await api.delete(CONFIG_MAPS, "a", "default", uid="another")
    await api.delete(CONFIG_MAPS, "a", "default")
    with pytest.raises(ApiNotFound):
        await api.get(CONFIG_MAPS, "a", "default", into=dict)


async def test_objects_are_converted_to_the_requested_type(api):
    api.put(PODS, make_pod("web", labels={"app": "x"}))
    pod = await api.get(PODS, "web", "default", into=Pod)
    assert (pod.name, pod.uid) == ("web", "uid-web")


async def test_list_supports_field_and_label_selectors(api):
    for name, node in (("a", "n1"), ("b", "n2")):
        api.put(PODS, make_pod(name, node_name=node, labels={"app": name}))
    by_field = await api.list(PODS, into=Pod, field_selector="spec.nodeName=n1")
    by_label = await api.list(PODS, into=Pod, label_selector="app in (b)")
    assert [p.name for p in by_field.items] == ["a"]
    assert [p.name for p in by_label.items] == ["b"]


async def test_status_changes_only_through_its_subresource(api):
    api.put(PODS, make_pod("web"))
    patch = {"status": {"phase": "Running"}, "spec": {"hostname": "x"}}
    await api.patch(PODS, "web", patch, "default", subresource="status")
    assert (api.find(PODS, "web")["status"]["phase"], api.find(PODS, "web")["spec"].get("hostname")) == (
        "Running",
        None,
    )
    await api.patch(PODS, "web", {"status": {"phase": "Failed"}}, "default")
    assert api.find(PODS, "web")["status"]["phase"] == "Running"


async def test_strategic_patches_merge_lists_by_key(api):
    api.put(NODES, {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    patch = {"status": {"conditions": [{"type": "Ready", "reason": "x"}, {"type": "Other", "reason": None}]}}
    await api.patch(NODES, "n", patch, subresource="status")
    assert api.find(NODES, "n")["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "x"},
        {"type": "Other"},
    ]


async def test_merge_and_json_patches_are_applied(api):
    api.put(CONFIG_MAPS, config_map("a", k="1", removed="x"))
    await api.patch(CONFIG_MAPS, "a", {"data": {"removed": None}}, "default", patch_type=PatchType.MERGE)
    operations = [{"op": "replace", "path": "/data/k", "value": "2"}]
    await api.patch(CONFIG_MAPS, "a", operations, "default", patch_type=PatchType.JSON)
    assert api.find(CONFIG_MAPS, "a")["data"] == {"k": "2"}


async def test_bound_pod_is_deleted_gracefully(api):
    api.put(PODS, make_pod("web", node_name="n"))
    await api.delete(PODS, "web", "default", grace_seconds=10)
    meta = api.find(PODS, "web")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 10 and meta["deletionTimestamp"]
    await api.delete(PODS, "web", "default", grace_seconds=0)
    assert api.find(PODS, "web") is None


async def test_watch_reports_objects_that_start_or_stop_to_match(api, clock, watch):
    seen, _ = await watch(PODS, field_selector="spec.nodeName=n1")
    api.put(PODS, make_pod("a", node_name="n1"))
    api.put(PODS, make_pod("b", node_name="n2"))
    api.put(PODS, make_pod("b", node_name="n1"))
    api.put(PODS, make_pod("a", node_name="n2"))
    api.remove(PODS, "b")
    await clock.advance(0)
    assert seen == [
        (WatchType.ADDED, "a"),
        (WatchType.ADDED, "b"),
        (WatchType.DELETED, "a"),
        (WatchType.DELETED, "b"),
    ]


async def test_watch_resumes_closes_and_expires(api, clock, watch):
    first = api.put(CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    api.put(CONFIG_MAPS, config_map("b"))
    seen, task = await watch(CONFIG_MAPS, resource_version=first)
    assert seen == [(WatchType.ADDED, "b")]

    api.end_watches()
    await clock.advance(0)
    assert task.done() and task.exception() is None

    api.expire()
    _, task = await watch(CONFIG_MAPS, resource_version=first)
    assert isinstance(task.exception(), ApiGone)


async def test_outage_fails_requests_and_interrupts_watches(api, clock, watch):
    _, task = await watch(PODS)
    api.outage = True
    await clock.advance(0)
    assert isinstance(task.exception(), ApiUnavailable)
    with pytest.raises(ApiUnavailable):
        await api.get(PODS, "web", "default", into=dict)
    api.outage = False
    assert (await api.list(PODS, into=dict)).items == []
    assert [r.verb for r in api.requests] == ["list", "watch", "get", "list"]


async def test_failures_are_injected_by_verb(api):
    api.fail("create", ApiConflict("not now", code=409), times=2)
    for _ in range(2):
        with pytest.raises(ApiConflict):
            await api.create(CONFIG_MAPS, config_map("a"), "default")
    await api.create(CONFIG_MAPS, config_map("a"), "default")
    assert len(api.made("create")) == 3


async def test_token_subresource_returns_a_token(api):
    api.put(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}})
    request = {"spec": {"expirationSeconds": 600}}
    response = await api.create(SERVICE_ACCOUNTS, request, "default", subresource="token", name="default")
    assert response["status"]["token"] and response["status"]["expirationTimestamp"].endswith("Z")


async def test_name_is_generated_unless_it_is_set(api):
    generated = {"metadata": {"generateName": "web-", "namespace": "default"}, "spec": {"containers": []}}
    names = [(await api.create(PODS, generated, "default"))["metadata"]["name"] for _ in range(2)]
    assert all(name.startswith("web-") and len(name) == 9 for name in names) and len(set(names)) == 2

    both = {**generated, "metadata": {**generated["metadata"], "name": "own"}}
    assert (await api.create(PODS, both, "default"))["metadata"]["name"] == "own"
    with pytest.raises(ApiConflict, match="already exists"):
        await api.create(PODS, both, "default")
