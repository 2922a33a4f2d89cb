"""Tests for run-once mode: exit code and log messages by the phases of the pods."""

import asyncio

import pytest

from nodeagent.contracts.pods import KillReason
from nodeagent.podworker.run_once import RUN_TIMEOUT_SECONDS, SOURCES_TIMEOUT_SECONDS, RunOnce
from nodeagent.testing import make_pod
from tests.unit.podworker.harness import Harness, living


@pytest.fixture
async def running(harness, caplog):
    caplog.set_level("INFO", "nodeagent.podworker.run_once")
    task = asyncio.create_task(RunOnce(harness.workers, harness.clock).run())
    await harness.clock.advance(0)
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def logged(caplog):
    return [record.message for record in caplog.records if record.name == "nodeagent.podworker.run_once"]


async def test_running_and_succeeded_pods_are_a_success(harness, running, caplog):
    job = make_pod("job", restart_policy="Never")
    await harness.publish(make_pod("web"), job)
    harness.runtime.exit(harness.runtime.pod(job.uid).containers[0].id, 0)
    await harness.cache.refresh(job.uid)
    harness.workers.trigger_sync(job.uid)
    await harness.clock.advance(1)

    assert harness.workers.status(job.uid).phase == "Succeeded"
    assert running.result() == 0
    assert logged(caplog) == ["All pods are running"]


async def test_failed_pod_is_a_failure_that_is_logged(harness, caplog):
    caplog.set_level("INFO", "nodeagent.podworker.run_once")
    pod = make_pod("job")
    await harness.publish(make_pod("web"), pod)
    harness.workers.kill(pod.uid, KillReason.EVICTED, "no room", status_reason="Evicted", grace_seconds=0)
    await harness.clock.advance(1)

    assert await RunOnce(harness.workers, harness.clock).run() == 1

    [record] = [record for record in caplog.records if record.name == "nodeagent.podworker.run_once"]
    assert (record.message, record.pod) == ("Failed to run pod", "default/job")
    assert (record.phase, record.reason) == ("Failed", "Evicted no room")


async def test_pod_that_does_not_start_is_a_failure_after_a_timeout(harness, running, caplog):
    harness.network_problem = "cni plugin not initialized"
    await harness.publish(make_pod("web"))

    await harness.clock.advance(RUN_TIMEOUT_SECONDS - 1)
    assert not running.done()
    await harness.clock.advance(2)

    assert running.result() == 1
    assert logged(caplog) == ["Failed to run pod"]


async def test_source_that_publishes_in_time_is_awaited(harness, running):
    await harness.clock.advance(SOURCES_TIMEOUT_SECONDS - 1)
    assert not running.done()

    await harness.publish()
    await harness.clock.advance(1)

    assert running.result() == 0


async def test_source_that_does_not_publish_is_a_failure(clock, caplog):
    async with living(Harness(clock)) as harness:
        task = asyncio.create_task(RunOnce(harness.workers, clock).run())
        await clock.advance(SOURCES_TIMEOUT_SECONDS + 1)

        assert task.result() == 1
    assert logged(caplog) == ["Failed to read all pod sources"]
