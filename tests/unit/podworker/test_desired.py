"""Tests for the changes between two sets of a source."""

import msgspec

from nodeagent.model.meta import OwnerReference
from nodeagent.model.pod import PodStatus
from nodeagent.podworker.desired import ChangeKind, DesiredPods, is_mirror, is_static
from nodeagent.testing import make_pod


def kinds(changes):
    return [(change.kind, change.pod.name) for change in changes]


def test_changes_are_ordered_removals_additions_updates():
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


def test_status_change_is_not_an_update():
    desired = DesiredPods(["api"])
    pod = make_pod("web")
    desired.publish("api", [pod])

    changes = desired.publish("api", [msgspec.structs.replace(pod, status=PodStatus(phase="Running"))])

    assert kinds(changes) == [(ChangeKind.STATUS, "web")]


def test_new_generation_of_a_pod_is_an_update():
    desired = DesiredPods(["api"])
    desired.publish("api", [make_pod("web", metadata={"generation": 1})])

    changes = desired.publish("api", [make_pod("web", metadata={"generation": 2})])

    assert kinds(changes) == [(ChangeKind.UPDATED, "web")]


def test_desired_pods_are_complete_once_every_source_published():
    desired = DesiredPods(["file", "api"])
    desired.publish("file", [])
    assert not desired.complete
    desired.publish("api", [])
    assert desired.complete


def test_duplicate_pod_name_is_ignored_and_reported_once():
    desired = DesiredPods(["file"])
    twins = [make_pod("web", uid="1"), make_pod("web", uid="2")]

    changes = desired.publish("file", twins)

    assert [(change.kind, change.pod.uid) for change in changes] == [
        (ChangeKind.ADDED, "1"),
        (ChangeKind.DUPLICATE, "2"),
    ]
    assert [pod.uid for pod in desired.pods()] == ["1"]
    assert desired.publish("file", twins) == []


def test_duplicate_is_added_when_the_other_pod_is_removed():
    desired = DesiredPods(["file"])
    first, second = make_pod("web", uid="1"), make_pod("web", uid="2")
    desired.publish("file", [first, second])

    changes = desired.publish("file", [second])

    assert [(change.kind, change.pod.uid) for change in changes] == [
        (ChangeKind.REMOVED, "1"),
        (ChangeKind.ADDED, "2"),
    ]
    assert desired.publish("file", [second]) == []


def test_first_pod_of_a_name_replaces_a_published_one():
    desired = DesiredPods(["file"])
    first, second = make_pod("web", uid="1"), make_pod("web", uid="2")
    desired.publish("file", [first])

    changes = desired.publish("file", [second, first])

    assert [(change.kind, change.pod.uid) for change in changes] == [
        (ChangeKind.REMOVED, "1"),
        (ChangeKind.ADDED, "2"),
        (ChangeKind.DUPLICATE, "1"),
    ]


def test_static_pods_are_those_of_other_sources_than_the_api():
    desired = DesiredPods(["file", "api"])
    static = make_pod("static", annotations={"kubernetes.io/config.source": "file"})
    mirror = make_pod("mirror", annotations={"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"})
    desired.publish("file", [static])
    desired.publish("api", [make_pod("web"), mirror])

    before = [pod.name for pod in desired.static_pods()]
    desired.publish("file", [])

    assert before == ["static"]
    assert desired.static_pods() == []


def test_mirror_pods_are_not_desired():
    desired = DesiredPods(["api"])
    mirror = make_pod("web", annotations={"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"})
    desired.publish("api", [mirror])

    assert is_mirror(mirror)
    assert not is_static(mirror)
    assert desired.pods() == []


def test_pods_of_node_plugins_are_added_first():
    old = make_pod("old")
    directory = {"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    registry = {"name": "r", "hostPath": {"path": "/var/lib/kubelet/plugins_registry/"}}
    daemon = {"owner_references": [OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="d")]}
    plugin = make_pod("plugin", volumes=[directory], metadata=daemon)
    driver = make_pod("driver", volumes=[registry], metadata=daemon)
    user = make_pod("user", volumes=[directory])  # Not part of a DaemonSet.

    changes = DesiredPods(["api"]).publish("api", [old, user, driver, plugin])

    assert [change.pod.name for change in changes] == ["driver", "plugin", "old", "user"]
