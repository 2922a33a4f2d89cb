"""Tests for the limit of pods per node."""

from __future__ import annotations

import pytest

from nodeagent.testing import admit, load_plugin, make_config, make_context, make_pod
from nodeagent_plugins import pod_admission


def pods(count):
    return [make_pod(f"p{i}") for i in range(count)]


def manager(tmp_path, **config):
    return load_plugin(pod_admission, context=make_context(tmp_path, config=make_config(**config)))


@pytest.mark.row("config.maxPods")
async def test_pod_above_the_maximum_is_rejected(tmp_path):
    plugins = manager(tmp_path, max_pods=3)

    assert await admit(plugins, make_pod("new"), *pods(2)) is None
    rejection = await admit(plugins, make_pod("new"), *pods(3))

    assert rejection.reason == "OutOfpods"
    assert rejection.message == "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"


@pytest.mark.row("config.podsPerCore")
async def test_pod_above_the_limit_per_core_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(pod_admission.os, "cpu_count", lambda: 2)
    plugins = manager(tmp_path, max_pods=100, pods_per_core=2)

    assert await admit(plugins, make_pod("new"), *pods(3)) is None
    assert (await admit(plugins, make_pod("new"), *pods(4))).reason == "OutOfpods"


async def test_pod_itself_is_not_counted_twice(tmp_path):
    plugins = manager(tmp_path, max_pods=2)
    assert await admit(plugins, make_pod("p1"), *pods(2)) is None
