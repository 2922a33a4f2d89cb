"""Tests for local storage limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.contracts.stats import FilesystemStats
from nodeagent.model.pod import Pod
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.eviction.local_storage import LimitedPods, find_excess, has_limit
from nodeagent_plugins.eviction.signals import Layout
from tests.unit.plugins.eviction.usage import GI, MI, pod_usage


def limited(limit: str | None = None, *, size: str | None = None) -> Pod:
    limits = {"ephemeral-storage": limit} if limit else {}
    volume: dict[str, Any] = {"name": "cache", "emptyDir": {"sizeLimit": size} if size else {}}
    return make_pod("a", containers=[make_container("c", resources={"limits": limits})], volumes=[volume])


def test_empty_dir_over_its_size_limit_is_detected():
    excess = find_excess(pod := limited(size="1Gi"), pod_usage(pod, volumes={"cache": GI + 1}), Layout.SINGLE)

    assert excess is not None
    assert (excess.signal, excess.message) == (
        "emptydirfs.limit",
        'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". ',
    )


@pytest.mark.parametrize("size", ["1Gi", "0", None])
def test_empty_dir_within_or_without_size_limit_is_accepted(size: str | None):
    pod = limited(size=size)

    assert find_excess(pod, pod_usage(pod, volumes={"cache": GI}), Layout.SINGLE) is None


def test_logs_layers_and_volumes_count_against_the_pod_limit():
    pod = limited("1Gi")
    parts = {"logs": 400 * MI, "layer": 400 * MI}

    assert find_excess(pod, pod_usage(pod, **parts, volumes={"cache": 200 * MI}), Layout.SINGLE) is None
    excess = find_excess(pod, pod_usage(pod, **parts, volumes={"cache": 300 * MI}), Layout.SINGLE)

    assert excess is not None
    assert (excess.signal, excess.message) == (
        "ephemeralpodfs.limit",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    )


def test_container_over_its_limit_is_detected():
    roomy = make_container("roomy", resources={"limits": {"ephemeral-storage": "9Gi"}})
    tight = make_container("tight", resources={"limits": {"ephemeral-storage": "1Gi"}})
    pod = make_pod("a", containers=[tight, roomy])

    excess = find_excess(pod, pod_usage(pod, logs=600 * MI, layer=600 * MI), Layout.SINGLE)

    assert excess is not None
    assert (excess.signal, excess.message) == (
        "ephemeralcontainerfs.limit",
        'Container tight exceeded its local ephemeral storage limit "1Gi". ',
    )


def test_layers_on_a_separate_disk_do_not_count_against_container_limits():
    roomy = make_container("roomy", resources={"limits": {"ephemeral-storage": "9Gi"}})
    tight = make_container("tight", resources={"limits": {"ephemeral-storage": "1Gi"}})
    pod = make_pod("a", containers=[tight, roomy])

    assert find_excess(pod, pod_usage(pod, layer=2 * GI), Layout.DEDICATED) is None


def test_without_limits_nothing_is_exceeded():
    pod = limited()

    assert find_excess(pod, pod_usage(pod, logs=50 * GI, layer=50 * GI), Layout.SINGLE) is None


@pytest.mark.parametrize(
    ("spec", "limited"),
    [
        ({}, False),
        ({"containers": [make_container(resources={"limits": {"memory": "1Gi"}})]}, False),
        ({"containers": [make_container(resources={"limits": {"ephemeral-storage": "1Gi"}})]}, True),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, False),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}, True),
    ],
)
def test_has_limit_selects_pods_with_storage_limits(spec: dict[str, Any], limited: bool):
    assert has_limit(make_pod("web", **spec)) is limited


def test_pods_with_limits_are_counted_until_they_are_removed():
    pods, plain = LimitedPods(), make_pod("plain")
    limited = make_pod("limited", volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}])

    found = [pods.any(active) for active in ([], [plain], [plain, limited], [plain, limited], [plain], [limited])]

    assert found == [False, False, True, True, False, True]


@pytest.mark.parametrize("parts", [{"logs": GI}, {"layer": GI}, {"logs": GI // 2, "layer": GI // 2}])
def test_usage_at_the_limit_of_container_and_pod_is_accepted(parts: dict[str, int]):
    pod = limited("1Gi")

    assert find_excess(pod, pod_usage(pod, **parts), Layout.SINGLE) is None


def test_usage_that_is_not_known_is_accepted():
    pod = limited("1Gi", size="1Gi")
    usage = pod_usage(pod, volumes={"cache": 0})
    unknown = FilesystemStats(1)
    volumes = [replace(each, filesystem=unknown) for each in usage.volumes]
    containers = [replace(each, logs=unknown, rootfs=None) for each in usage.containers]

    found = replace(usage, volumes=volumes, containers=containers, ephemeral_storage=None)

    assert find_excess(pod, found, Layout.SINGLE) is None
    assert find_excess(pod, replace(found, ephemeral_storage=unknown), Layout.SINGLE) is None
