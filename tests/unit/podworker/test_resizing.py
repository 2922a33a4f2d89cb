"""Tests for resizes of running pods: granted resources, deferred resizes and their retries."""

import msgspec
import pytest

from nodeagent import hookimpl
from nodeagent.allocation import metrics
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import ResourceRequirements
from nodeagent.model.resources import pod_requests
from nodeagent.testing import make_container, make_pod
from tests.unit.podworker.harness import Harness, living


def sized_pod(name, cpu, generation=1):
    container = msgspec.structs.replace(make_container(), resources=ResourceRequirements(requests={"cpu": cpu}))
    pod = make_pod(name, containers=[container])
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, generation=generation))


class CpuLimit:
    """Admission that rejects pods above a total cpu request."""

    def __init__(self, milli):
        self.milli = milli

    @hookimpl
    async def nodeagent_admit_pod(self, pod, active):
        pods = [pod, *(other for other in active if other.uid != pod.uid)]
        used = sum(pod_requests(each)["cpu"].milli_value() for each in pods)
        return Rejection("OutOfcpu", "no cpu left") if used > self.milli else None


@pytest.fixture
async def full(clock):
    """Node with room for 300m of cpu, whose pods can be resized."""
    limit = CpuLimit(300)
    harness = Harness(clock, limit, resizing=True)
    harness.limit = limit
    async with living(harness) as built:
        yield built


def granted(harness, pod):
    return harness.workers.get(pod.uid).spec.containers[0].resources.requests["cpu"]


def resize_conditions(harness, pod):
    conditions = harness.workers.status(pod.uid).conditions
    return {c.type: c.reason for c in conditions if c.type.startswith("PodResize")}


async def test_pod_is_resized_as_far_as_the_node_has_room(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "100m")
    await full.publish(web, other)

    await full.publish(sized_pod("web", "200m", 2), other)

    assert granted(full, web) == "200m"
    await full.publish(sized_pod("web", "250m", 3), other)
    assert granted(full, web) == "200m"
    assert resize_conditions(full, web) == {"PodResizePending": "Deferred", "PodResizeInProgress": ""}


async def test_requested_resizes_are_counted_only_if_pods_can_be_resized(full, clock):
    async with living(Harness(clock)) as fixed:
        count = metrics.REQUESTED.value("cpu", "requests", "increase")
        for harness, counted in ((fixed, 0), (full, 1)):
            await harness.publish(sized_pod("web", "100m"))
            await harness.publish(sized_pod("web", "200m", 2))

            assert metrics.REQUESTED.value("cpu", "requests", "increase") == count + counted


async def test_deferred_resize_is_granted_after_a_pod_was_removed(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "200m")
    await full.publish(web, other)
    resized = sized_pod("web", "200m", 2)
    await full.publish(resized, other)
    assert granted(full, web) == "100m"

    await full.publish(resized)

    assert granted(full, web) == "200m"


async def test_deferred_resize_is_granted_after_another_pod_shrank(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "200m")
    await full.publish(web, other)
    resized = sized_pod("web", "200m", 2)
    await full.publish(resized, other)

    await full.publish(resized, sized_pod("other", "100m", 2))

    assert granted(full, web) == "200m"


async def test_deferred_resize_is_retried_periodically(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "200m")
    await full.publish(web, other)
    await full.publish(sized_pod("web", "200m", 2), other)
    full.limit.milli = 1000

    await full.clock.advance(30)

    assert granted(full, web) == "200m"
