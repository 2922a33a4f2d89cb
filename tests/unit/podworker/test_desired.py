"""A new set of a source becomes the changes between it and the set before."""

import msgspec

from nodeagent.model.pod import PodStatus
from nodeagent.podworker.desired import ChangeKind, DesiredPods, is_mirror, is_static
from nodeagent.testing import make_pod


def kinds(changes):
    return [(change.kind, change.pod.name) for change in changes]


def test_removals_come_first_then_additions_then_updates():
    desired = DesiredPods(["file"])
    old, kept = make_pod("old"), make_pod("kept")
    desired.publish("file", [old, kept])

    changed = msgspec.structs.replace(kept, spec=msgspec.structs.replace(kept.spec, hostname="other"))
    changes = desired.publish("file", [make_pod("new"), changed])

    assert kinds(changes) == [
        (ChangeKind.REMOVED, "old"),
        (ChangeKind.ADDED, "new"),
        (ChangeKind.UPDATED, "kept"),
    ]


def test_a_change_of_the_reported_status_is_no_update():
    desired = DesiredPods(["api"])
    pod = make_pod("web")
    desired.publish("api", [pod])

    changes = desired.publish("api", [msgspec.structs.replace(pod, status=PodStatus(phase="Running"))])

    assert kinds(changes) == [(ChangeKind.STATUS, "web")]


def test_pods_are_known_when_every_source_has_published():
    desired = DesiredPods(["file", "api"])
    desired.publish("file", [])
    assert not desired.complete
    desired.publish("api", [])
    assert desired.complete


def test_the_second_of_two_pods_with_one_name_is_left_out_which_is_told_once():
    desired = DesiredPods(["file"])
    twins = [make_pod("web", uid="1"), make_pod("web", uid="2")]

    changes = desired.publish("file", twins)

    assert [(change.kind, change.pod.uid) for change in changes] == [
        (ChangeKind.ADDED, "1"),
        (ChangeKind.LEFT_OUT, "2"),
    ]
    assert [pod.uid for pod in desired.pods()] == ["1"]
    assert desired.publish("file", twins) == []


def test_mirror_pods_are_not_wanted():
    desired = DesiredPods(["api"])
    mirror = make_pod("web", annotations={"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"})
    desired.publish("api", [mirror])

    assert is_mirror(mirror)
    assert not is_static(mirror)
    assert desired.pods() == []
