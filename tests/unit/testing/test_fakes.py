"""Tests for the fakes of components."""

from __future__ import annotations

from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakePodDirectory, make_pod


def test_added_pod_has_its_status_and_its_observed_state() -> None:
    pods, web, idle = FakePodDirectory(), make_pod("web"), make_pod("idle")
    observed = RuntimePod(web.uid, "web", "default", [])

    pods.add(web, PodStatus(phase="Running"), observed)
    pods.add(idle)

    assert (pods.all(), pods.active()) == ([web, idle], [web, idle])
    assert (pods.statuses, pods.runtime_pods) == ({web.uid: PodStatus(phase="Running")}, {web.uid: observed})
