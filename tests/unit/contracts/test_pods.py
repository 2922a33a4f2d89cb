"""Tests for the selection of pods in a directory."""

from nodeagent.contracts.pods import find_pod, undecided_pods
from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakePodDirectory, make_pod


class Directory(FakePodDirectory):
    """Pods of which those named ``active`` are active."""

    def active(self):
        return [pod for pod in self.all() if pod.name == "active"]

    def status(self, uid):
        return None if uid in ("uid-active", "uid-new") else PodStatus(phase="Failed")


def test_undecided_pods_are_neither_active_nor_rejected():
    pods = Directory(*map(make_pod, ("active", "new", "rejected")))
    assert [pod.name for pod in undecided_pods(pods)] == ["new"]


def test_pod_is_found_by_namespace_name_and_uid():
    pods = Directory(make_pod("web", namespace="a", uid="1"), make_pod("web", namespace="b", uid="2"))
    assert find_pod(pods, "b", "web").uid == find_pod(pods, "b", "web", "2").uid == "2"
    assert find_pod(pods, "b", "web", "1") is None
    assert find_pod(pods, "c", "web") is None and find_pod(pods, "a", "x") is None
