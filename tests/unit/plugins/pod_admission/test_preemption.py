"""A critical pod gets its room from pods that matter less, from as few as possible."""

from __future__ import annotations

import pytest

from nodeagent.contracts.pods import KillReason
from nodeagent.testing import FakePodDirectory, admit, load_plugin, make_container, make_context, make_pod
from nodeagent_plugins import pod_admission

NODE = {"metadata": {"labels": {}}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}}
CRITICAL = 2_000_000_000


def pod(name, cpu="0", *, limited=False, **spec):
    asked = {"cpu": cpu, "memory": "1Mi"} if cpu != "0" else {}
    resources = {"requests": asked, "limits": asked} if limited else {"requests": asked}
    return make_pod(name, containers=[make_container(resources=resources)], **spec)


async def admitted(tmp_path, new, *active, directory=None):
    directory = directory or FakePodDirectory(*active)
    context = make_context(tmp_path, node=NODE, pods=directory)
    rejection = await admit(load_plugin(pod_admission, context=context), new, *active)
    return rejection, [directory.pods[kill.uid].name for kill in directory.kills], context, directory


async def test_a_critical_pod_ends_what_takes_its_room(tmp_path):
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


async def test_an_ordinary_pod_is_refused_instead(tmp_path):
    rejection, killed, *_ = await admitted(tmp_path, pod("web", "1500m"), pod("a", "1"))

    assert rejection.reason == "OutOfcpu"
    assert killed == []


async def test_critical_pods_stay_unless_their_priority_is_lower(tmp_path):
    rejection, killed, *_ = await admitted(
        tmp_path, pod("dns", "1500m", priority=CRITICAL), pod("other", "1", priority=CRITICAL)
    )
    assert (rejection.reason, killed) == ("OutOfcpu", [])

    rejection, killed, *_ = await admitted(
        tmp_path, pod("dns", "1500m", priority=CRITICAL + 1000), pod("other", "1", priority=CRITICAL)
    )
    assert (rejection, killed) == (None, ["other"])


async def test_guaranteed_pods_go_last(tmp_path):
    rejection, killed, *_ = await admitted(
        tmp_path, pod("dns", "1", priority=CRITICAL), pod("sure", "1", limited=True), pod("loose", "1")
    )
    assert (rejection, killed) == (None, ["loose"])


async def test_nobody_is_ended_when_it_would_not_help(tmp_path):
    rejection, killed, *_ = await admitted(tmp_path, pod("dns", "3", priority=CRITICAL), pod("a", "1"))
    assert (rejection.reason, killed) == ("OutOfcpu", [])

    elsewhere = pod("dns", "1500m", priority=CRITICAL, node_selector={"zone": "b"})
    rejection, killed, *_ = await admitted(tmp_path, elsewhere, pod("a", "1"))
    assert killed == []


async def test_room_that_was_given_away_is_not_given_twice(tmp_path):
    a, b = pod("a", "1"), pod("b", "1")
    directory = FakePodDirectory(a, b)
    plugins = load_plugin(pod_admission, context=make_context(tmp_path, node=NODE, pods=directory))
    first, second = pod("one", "1", priority=CRITICAL), pod("two", "1", priority=CRITICAL)

    assert await admit(plugins, first, a, b) is None
    assert await admit(plugins, second, a, b, first) is None

    assert sorted(directory.pods[kill.uid].name for kill in directory.kills) == ["a", "b"]


@pytest.mark.parametrize("count", [1, 3])
async def test_the_nearest_to_the_need_goes(tmp_path, count):
    small = [pod(f"small-{number}", "200m") for number in range(count)]
    rejection, killed, *_ = await admitted(tmp_path, pod("dns", "1", priority=CRITICAL), pod("large", "1"), *small)

    assert rejection is None
    assert killed == (["small-0"] if count == 1 else ["large"])
