"""Tests for the mirror pod metric."""

from nodeagent.model.meta import ObjectReference
from nodeagent.status.mirror import MIRRORS, MirrorPods
from nodeagent.testing import FakeApi, make_pod


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
