"""Mirror pods are counted as the API server shows them."""

from nodeagent.model.meta import ObjectReference
from nodeagent.status.mirror import MIRRORS, MirrorPods
from nodeagent.testing import FakeApi, make_pod


def test_a_mirror_counts_while_the_api_server_has_it(clock):
    mirrors = MirrorPods(
        api=FakeApi, clock=clock, static_pods=list, node=ObjectReference, appeared=lambda uid, mirror: None
    )
    pod = make_pod("web-node")

    assert MIRRORS.sample() == {(): 0}
    mirrors.seen(pod)
    assert MIRRORS.sample() == {(): 1}
    mirrors.gone(pod)
    assert MIRRORS.sample() == {(): 0}
