"""Tests for the rate at which containers are started."""

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.simulation.restart_rate import MOST_STARTS, WINDOW_SECONDS, RestartRate
from nodeagent.simulation.runtime_objects import Container, Sandbox


def container(name="web"):
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(uid="a", name="a"))
    return Container(
        "c", Sandbox("s", config, 0, ""), cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name)), 0
    )


@pytest.fixture
def rate():
    """Return a rate with the largest permitted number of starts at 0 s."""
    rate = RestartRate()
    for _ in range(MOST_STARTS):
        assert not rate.start(container(), 1, 0.0)
    return rate


def test_one_more_start_within_the_window_is_too_many(rate):
    problem = f"container web of pod a is started {MOST_STARTS + 1} times in 60 s"
    assert rate.start(container(), 1, WINDOW_SECONDS - 0.1) == problem


def test_starts_at_the_beginning_of_the_window_do_not_count(rate):
    assert not rate.start(container(), 1, WINDOW_SECONDS)


def test_starts_of_another_container_or_process_do_not_count(rate):
    assert not rate.start(container("other"), 1, 1.0)
    assert not rate.start(container(), 2, 1.0)


def test_starts_of_deleted_pods_are_dropped(rate):
    rate.forget(["a"])
    assert rate.start(container(), 1, 1.0)
    rate.forget(["b"])
    assert not rate.start(container(), 1, 1.0)
