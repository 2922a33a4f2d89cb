"""Tests for ranking and messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.contracts.stats import FilesystemStats, PodUsage, VolumeUsage
from nodeagent.model.eviction_thresholds import Signal, Threshold, parse_amount
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.eviction.messages import eviction_message
from nodeagent_plugins.eviction.ranking import explain, rank, use
from nodeagent_plugins.eviction.signals import Layout, Observation
from tests.unit.plugins.eviction.usage import GI, MI, pod_usage


def candidate(
    name: str, *, requests: dict[str, str] | None = None, priority: int = 0, measured: bool = True, **use: Any
) -> EvictionCandidate:
    pod = make_pod(name, containers=[make_container(resources={"requests": requests or {}})], priority=priority)
    usage: PodUsage | None = pod_usage(pod, **use) if measured else None
    return EvictionCandidate(pod, usage)


def order(signal: Signal, *candidates: EvictionCandidate, layout: Layout = Layout.SINGLE) -> list[str]:
    return [each.pod.name for each in rank(signal, candidates, layout)]


def test_memory_ranks_by_request_then_priority_then_excess():
    found = order(
        Signal.MEMORY,
        candidate("within", requests={"memory": "1Gi"}, memory=900 * MI, priority=-5),
        candidate("important", memory=5 * GI, priority=1000),
        candidate("little", memory=100 * MI),
        candidate("much", memory=200 * MI, requests={"memory": "50Mi"}),
        candidate("unknown", measured=False, priority=500),
    )

    assert found == ["unknown", "much", "little", "important", "within"]


def test_processes_rank_by_priority_then_number():
    found = order(
        Signal.PID,
        candidate("few", processes=3),
        candidate("many", processes=300),
        candidate("important", processes=500, priority=1),
        candidate("unknown", measured=False),
    )

    assert found == ["unknown", "many", "few", "important"]


def test_disk_ranks_by_the_usage_on_it():
    logs = candidate("logs", logs=GI)
    layer = candidate("layer", layer=2 * GI)
    volume = candidate("volume", volumes={"cache": 3 * GI})
    all_of_them = (logs, layer, volume)

    assert order(Signal.NODEFS, *all_of_them) == ["volume", "layer", "logs"]
    assert order(Signal.IMAGEFS, *all_of_them) == ["volume", "layer", "logs"]
    assert order(Signal.NODEFS, *all_of_them, layout=Layout.DEDICATED) == ["volume", "logs", "layer"]
    assert order(Signal.IMAGEFS, *all_of_them, layout=Layout.DEDICATED)[0] == "layer"
    assert order(Signal.CONTAINERFS, *all_of_them, layout=Layout.SPLIT) == ["volume", "layer", "logs"]


def test_disk_request_is_subtracted():
    found = order(
        Signal.NODEFS,
        candidate("asked", logs=2 * GI, requests={"ephemeral-storage": "3Gi"}),
        candidate("unasked", logs=GI),
    )

    assert found == ["unasked", "asked"]


def test_inodes_rank_by_number_only():
    found = order(
        Signal.NODEFS_INODES,
        candidate("few", inodes=10, logs=GI),
        candidate("many", inodes=1000, requests={"ephemeral-storage": "3Gi"}),
    )

    assert found == ["many", "few"]


@pytest.mark.parametrize(
    ("signal", "each", "why"),
    [
        (
            Signal.MEMORY,
            candidate("a", memory=200 * MI, requests={"memory": "100Mi"}, priority=7),
            "uses 200Mi of memory, more than its request of 100Mi; priority 7",
        ),
        (
            Signal.NODEFS,
            candidate("a", logs=MI, requests={"ephemeral-storage": "1Gi"}),
            "uses 1Mi of ephemeral-storage, within its request of 1Gi; priority 0",
        ),
        (Signal.PID, candidate("a", processes=9), "priority 0; 9 processes"),
        (Signal.NODEFS_INODES, candidate("a", inodes=9), "uses 9 inodes; priority 0"),
        (Signal.MEMORY, candidate("a", measured=False), "usage unknown; priority 0"),
    ],
)
def test_rank_is_explained(signal: Signal, each: EvictionCandidate, why: str):
    assert explain(signal, each, Layout.SINGLE) == why


# --- messages -------------------------------------------------------------------------------------------------


def test_message_names_threshold_and_offending_containers():
    threshold = Threshold(Signal.MEMORY, parse_amount("100Mi"))
    each = candidate("a", memory=200 * MI, requests={"memory": "100Mi"})

    message, annotations = eviction_message(threshold, Observation(53 * MI, 16 * GI), each)

    assert message == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 53Mi. "
        "Container main was using 200Mi, request is 100Mi, has larger consumption of memory. "
    )
    assert annotations == {
        "offending_containers": "main",
        "offending_containers_usage": "200Mi",
        "starved_resource": "memory",
    }


@pytest.mark.parametrize(("init_containers", "names"), [(False, "main"), (True, "main,side")])
def test_message_names_init_containers_on_request(init_containers: bool, names: str):
    threshold = Threshold(Signal.MEMORY, parse_amount("100Mi"))
    debug = {"name": "debug", "image": "i"}
    pod = make_pod("a", init_containers=[make_container("side", restart_policy="Always")], ephemeral_containers=[debug])
    usage = pod_usage(pod, memory=200 * MI)
    (main,) = (each for each in usage.containers if each.name == "main")
    running = [main, replace(main, name="side"), replace(main, name="debug")]
    each = EvictionCandidate(pod, replace(usage, containers=running))

    message, annotations = eviction_message(threshold, None, each, init_containers=init_containers)

    assert ("Container side was using 200Mi, request is 0" in message) is init_containers
    assert annotations["offending_containers"] == names


def test_disk_message_sums_layer_and_logs_and_resolves_percentages():
    threshold = Threshold(Signal.NODEFS, parse_amount("10%"))
    each = candidate("a", logs=MI, layer=2 * MI)

    message, _ = eviction_message(threshold, Observation(5 * GI, 100 * GI), each)

    assert message == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 5Gi. "
        "Container main was using 3Mi, request is 0, has larger consumption of ephemeral-storage. "
    )


def test_unmeasured_containers_are_not_named():
    message, annotations = eviction_message(
        Threshold(Signal.PID, parse_amount("1k")), Observation(500, 32768), candidate("a")
    )

    assert message == "The node was low on resource: pids. Threshold quantity: 1k, available: 500. "
    assert annotations["offending_containers"] == ""


def test_message_names_a_pod_with_its_own_memory_request():
    each = candidate("a", memory=200 * MI)
    pod = make_pod("a", resources={"requests": {"memory": "100Mi"}})

    message, annotations = eviction_message(
        Threshold(Signal.MEMORY, parse_amount("100Mi")), None, EvictionCandidate(pod, each.usage)
    )

    assert message.startswith(
        "The node was low on resource: memory. "
        "Pod a was using 200Mi, request is 100Mi, has larger consumption of memory. "
    )
    assert (annotations["offending_pod"], annotations["offending_pod_usage"]) == ("a", "200Mi")


def test_message_about_disks_does_not_name_the_pod():
    each = candidate("a", logs=MI)
    pod = make_pod("a", resources={"requests": {"memory": "100Mi"}})

    _, annotations = eviction_message(
        Threshold(Signal.NODEFS, parse_amount("10%")), None, EvictionCandidate(pod, each.usage)
    )

    assert "offending_pod" not in annotations


def test_pod_at_its_request_ranks_as_within_it():
    found = order(
        Signal.MEMORY,
        candidate("at", requests={"memory": "100Mi"}, memory=100 * MI, priority=-1),
        candidate("above", requests={"memory": "100Mi"}, memory=101 * MI),
    )

    assert found == ["above", "at"]


def test_volumes_on_the_disk_of_the_node_count_for_its_signal():
    volumes = [
        {"name": "host", "hostPath": {"path": "/data"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
    ]
    pod = make_pod("a", containers=["main"], volumes=volumes)
    usage = replace(
        pod_usage(pod),
        volumes=[
            VolumeUsage(name, disk_use(used), local_ephemeral=False) for name, used in (("host", 5), ("claim", 7))
        ],
    )

    assert use(Signal.NODEFS, EvictionCandidate(pod, usage), Layout.SINGLE) == 5


def disk_use(used: int | None) -> FilesystemStats:
    return FilesystemStats(1, used_bytes=used, inodes_used=1)


@pytest.mark.parametrize(
    ("signal", "changes"),
    [
        (Signal.NODEFS_INODES, {}),
        (Signal.NODEFS, {"rootfs": None}),
        (Signal.NODEFS, {"logs": None}),
        (Signal.NODEFS, {"rootfs": disk_use(None)}),
        (Signal.NODEFS, {"logs": disk_use(None)}),
        (Signal.NODEFS, {"logs": disk_use(0)}),
        (Signal.MEMORY, {"memory": None}),
    ],
)
def test_message_names_only_containers_that_exceed_their_request(signal: Signal, changes: dict[str, Any]):
    each = candidate("a", layer=1, memory=9, requests={"ephemeral-storage": "1"})
    (main,) = each.usage.containers
    each = replace(each, usage=replace(each.usage, containers=[replace(main, **changes)]))

    message, _ = eviction_message(Threshold(signal, parse_amount("10%")), None, each)

    assert "Container" not in message
