"""Tests for preemption."""

from __future__ import annotations

import pytest

from nodeagent.contracts.pods import KillReason
from nodeagent.testing import FakePodDirectory, admit, load_plugin, make_container, make_context, make_pod
from nodeagent_plugins import pod_admission

NODE = {"metadata": {"labels": {}}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}}
CRITICAL = 2_000_000_000


def pod(name, cpu="0", *, limited=False, **spec):
    requested = {"cpu": cpu, "memory": "1Mi"} if cpu != "0" else {}
    resources = {"requests": requested, "limits": requested} if limited else {"requests": requested}
    return make_pod(name, containers=[make_container(resources=resources)], **spec)


async def admitted(tmp_path, new, *active, directory=None):
    directory = directory or FakePodDirectory(*active)
    context = make_context(tmp_path, node=NODE, pods=directory)
    rejection = await admit(load_plugin(pod_admission, context=context), new, *active)
    return rejection, [directory.pods[kill.uid].name for kill in directory.kills], context, directory


async def test_critical_pod_preempts_lower_priority_pods(tmp_path):
    counted = pod_admission.PREEMPTIONS.value("cpu")
    rejection, killed, context, directory = await admitted(
        tmp_path, pod("dns", "1500m", priority=CRITICAL), pod("a", "1"), pod("b", "500m")
    )

    assert rejection is None
    assert killed == ["a"], "one pod that gives enough is better than two"
    kill = directory.kills[0]
    assert (kill.reason, kill.status_reason) == (KillReason.PREEMPTED, "Preempting")
    assert kill.message == "Preempted in order to admit critical pod"
    assert [(event.reason, event.type) for event in context.recorder.events] == [("Preempting", "Warning")]
    assert pod_admission.PREEMPTIONS.value("cpu") == counted + 1


async def test_ordinary_pod_is_rejected(tmp_path):
    rejection, killed, *_ = await admitted(tmp_path, pod("web", "1500m"), pod("a", "1"))

    assert rejection.reason == "OutOfcpu"
    assert killed == []


async def test_critical_pods_are_preempted_only_by_higher_priority(tmp_path):
    rejection, killed, *_ = await admitted(
        tmp_path, pod("dns", "1500m", priority=CRITICAL), pod("other", "1", priority=CRITICAL)
    )
    assert (rejection.reason, killed) == ("OutOfcpu", [])

    rejection, killed, *_ = await admitted(
        tmp_path, pod("dns", "1500m", priority=CRITICAL + 1000), pod("other", "1", priority=CRITICAL)
    )
    assert (rejection, killed) == (None, ["other"])


async def test_guaranteed_pods_are_preempted_last(tmp_path):
    rejection, killed, *_ = await admitted(
        tmp_path, pod("dns", "1", priority=CRITICAL), pod("sure", "1", limited=True), pod("loose", "1")
    )
    assert (rejection, killed) == (None, ["loose"])


async def test_nothing_is_preempted_if_insufficient(tmp_path):
    rejection, killed, *_ = await admitted(tmp_path, pod("dns", "3", priority=CRITICAL), pod("a", "1"))
    assert (rejection.reason, killed) == ("OutOfcpu", [])

    elsewhere = pod("dns", "1500m", priority=CRITICAL, node_selector={"zone": "b"})
    rejection, killed, *_ = await admitted(tmp_path, elsewhere, pod("a", "1"))
    assert killed == []


async def test_freed_resources_are_not_assigned_twice(tmp_path):
    a, b = pod("a", "1"), pod("b", "1")
    directory = FakePodDirectory(a, b)
    plugins = load_plugin(pod_admission, context=make_context(tmp_path, node=NODE, pods=directory))
    first, second = pod("one", "1", priority=CRITICAL), pod("two", "1", priority=CRITICAL)

    assert await admit(plugins, first, a, b) is None
    assert await admit(plugins, second, a, b, first) is None

    assert sorted(directory.pods[kill.uid].name for kill in directory.kills) == ["a", "b"]


@pytest.mark.parametrize("count", [1, 3])
async def test_closest_request_is_preempted(tmp_path, count):
    small = [pod(f"small-{number}", "200m") for number in range(count)]
    rejection, killed, *_ = await admitted(tmp_path, pod("dns", "1", priority=CRITICAL), pod("large", "1"), *small)

    assert rejection is None
    assert killed == (["small-0"] if count == 1 else ["large"])
