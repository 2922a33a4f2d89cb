"""Tests for mirror pods: their metric, and the replacement of outdated ones."""

from datetime import UTC, datetime

import msgspec
import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.api import PODS
from nodeagent.errors import ApiError, ApiNotFound
from nodeagent.model.meta import ObjectReference
from nodeagent.model.pod import Pod
from nodeagent.status.mirror import MIRRORS, MirrorPods
from nodeagent.testing import FakeApi, make_pod

HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"


def make_mirrors(clock, api, static_pods, appeared=lambda uid, mirror: None, node_uid="u"):
    return MirrorPods(
        api=lambda: api,
        clock=clock,
        static_pods=lambda: static_pods,
        node=lambda: ObjectReference(kind="Node", name="node", uid=node_uid),
        appeared=appeared,
    )


def mirror_of(api, pod, value="h"):
    return msgspec.convert(api.put(PODS, make_pod(pod.name, annotations={HASH: value, MIRROR: value})), Pod)


async def reconcile(mirrors, clock, seconds=0):
    mirrors.wake()
    async with TaskOwner("test") as tasks:
        tasks.start(mirrors.run(), "mirror pods")
        await clock.advance(seconds)


def test_mirror_pod_is_counted_while_it_exists_in_the_api(clock):
    mirrors = MirrorPods(
        api=FakeApi, clock=clock, static_pods=list, node=ObjectReference, appeared=lambda uid, mirror: None
    )
    pod = make_pod("web-node")

    assert MIRRORS.sample() == {(): 0}
    mirrors.seen(pod)
    assert MIRRORS.sample() == {(): 1}
    mirrors.gone(pod)
    assert MIRRORS.sample() == {(): 0}


async def test_outdated_mirror_is_replaced_after_a_starting_server_returns_404(clock):
    api = FakeApi(clock)
    outdated = msgspec.convert(api.put(PODS, make_pod("web-node", annotations={HASH: "old", MIRROR: "old"})), Pod)
    static = make_pod("web-node", annotations={HASH: "new"})
    mirrors = make_mirrors(clock, api, [static])
    mirrors.seen(outdated)
    api.fail("delete", ApiNotFound("pods not found", code=404))

    await reconcile(mirrors, clock, 5)

    assert api.find(PODS, "web-node")["metadata"]["annotations"][MIRROR] == "new"


def test_new_mirror_pod_is_announced_once_for_its_static_pod(clock):
    api, announced = FakeApi(clock), []
    web, other = make_pod("web-node", annotations={HASH: "h"}), make_pod("other-node", annotations={HASH: "o"})
    mirrors = make_mirrors(clock, api, [other, web], lambda uid, mirror: announced.append((uid, mirror.uid)))
    first = mirror_of(api, web)
    second = msgspec.structs.replace(first, metadata=msgspec.structs.replace(first.metadata, uid="replaced"))

    for seen in (first, first, second):
        mirrors.seen(seen)

    assert announced == [(web.uid, first.uid), (web.uid, "replaced")]
    assert mirrors.of(web) is second
    assert mirrors.of(other) is None
    assert mirrors.of(make_pod("web-node", annotations={HASH: "changed"})) is None
    mirrors.gone(first)
    assert mirrors.of(web) is second, "another mirror pod was deleted"
    mirrors.gone(second)
    assert mirrors.of(web) is None


async def test_mirror_pods_are_retained_until_every_source_has_published(clock):
    api = FakeApi(clock)
    mirror = mirror_of(api, make_pod("web-node"))
    unknown, without_api = make_mirrors(clock, api, None), make_mirrors(clock, None, [])
    none_desired = make_mirrors(clock, api, [])
    for mirrors in (unknown, without_api, none_desired):
        mirrors.seen(mirror)

    await reconcile(unknown, clock)
    await reconcile(without_api, clock)
    assert api.made("delete") == []
    await reconcile(none_desired, clock)
    assert [request.name for request in api.made("delete")] == ["web-node"]


async def test_current_mirror_pod_is_deleted_if_its_deletion_was_requested(clock):
    api, web = FakeApi(clock), make_pod("web-node", annotations={HASH: "h"})
    mirror = mirror_of(api, web)
    mirrors = make_mirrors(clock, api, [web])
    mirrors.seen(mirror)
    await reconcile(mirrors, clock)
    assert api.made("delete") == []

    deleted = msgspec.structs.replace(mirror.metadata, deletion_timestamp=datetime(2024, 1, 1, tzinfo=UTC))
    mirrors.seen(msgspec.structs.replace(mirror, metadata=deleted))
    await reconcile(mirrors, clock)

    assert [request.verb for request in api.requests] == ["delete", "create"]


@pytest.mark.parametrize(
    ("failure", "requests"),
    [
        (ApiError("invalid", code=422), 1),
        (ApiError("internal", code=500), 2),
        (ApiError("slow down", code=429, transient=True), 2),
    ],
)
async def test_failed_creation_is_repeated_unless_it_is_rejected(clock, caplog, failure, requests):
    api, web = FakeApi(clock), make_pod("web-node", annotations={HASH: "h"})
    api.fail("create", failure)

    await reconcile(make_mirrors(clock, api, [web]), clock, 5)

    assert len(api.made("create")) == requests
    assert [record.message for record in caplog.records] == ["Failed creating a mirror pod for"]


async def test_no_mirror_pod_is_created_for_deleted_pods_or_before_registration(clock):
    api = FakeApi(clock)
    deleted = make_pod("old-node", metadata={"deletion_timestamp": datetime(2024, 1, 1, tzinfo=UTC)})

    await reconcile(make_mirrors(clock, api, [deleted]), clock, 5)
    await reconcile(make_mirrors(clock, api, [make_pod("web-node")], node_uid=""), clock, 5)
    assert api.requests == []
    await reconcile(make_mirrors(clock, api, [make_pod("web-node")]), clock, 5)

    assert [request.name for request in api.made("create")] == ["web-node"]
