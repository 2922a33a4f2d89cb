"""Tests for mirror pods: their metric, and the replacement of outdated ones."""

import msgspec

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.api import PODS
from nodeagent.errors import ApiNotFound
from nodeagent.model.meta import ObjectReference
from nodeagent.model.pod import Pod
from nodeagent.status.mirror import MIRRORS, MirrorPods
from nodeagent.testing import FakeApi, make_pod

HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"


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
    mirrors = MirrorPods(
        api=lambda: api,
        clock=clock,
        static_pods=lambda: [static],
        node=lambda: ObjectReference(kind="Node", name="node", uid="u"),
        appeared=lambda uid, mirror: None,
    )
    mirrors.seen(outdated)
    api.fail("delete", ApiNotFound("pods not found", code=404))

    async with TaskOwner("test") as tasks:
        tasks.start(mirrors.run(), "mirror pods")
        await clock.advance(5)

    assert api.find(PODS, "web-node")["metadata"]["annotations"][MIRROR] == "new"
