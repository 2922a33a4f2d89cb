"""Tests for pod workers: adoption, orphans, predecessors, metrics and logs of publications."""

from nodeagent.contracts.pods import KillReason
from nodeagent.model.pod import PodStatus
from nodeagent.podworker.metrics import ORPHANS, RESTARTED, WORKING
from nodeagent.testing import make_pod
from tests.unit.podworker.harness import Harness, living


async def test_orphaned_runtime_pod_is_terminated_once_sources_are_ready(harness):
    stray = make_pod("stray")
    harness.runtime.start("main", stray)
    await harness.cache.refresh(stray.uid)
    harness.workers.terminate_orphans(list(harness.cache.pods()))
    await harness.clock.advance(0)
    assert harness.runtime.running() != []
    await harness.publish()

    harness.workers.terminate_orphans(list(harness.cache.pods()))
    await harness.clock.advance(0)

    assert harness.runtime.running() == []
    assert harness.cache.get(stray.uid) is None


async def test_duplicate_pod_name_records_an_event(harness):
    await harness.publish(make_pod("web", uid="1"), make_pod("web", uid="2"))

    [event] = harness.recorder.of("FailedValidation")
    assert event.regarding.uid == "2"
    assert event.note == ('Error validating pod web_default(2) from file due to duplicate pod name "web", ignoring')


async def test_static_pod_waits_for_termination_of_predecessor(harness):
    annotations = {"kubernetes.io/config.source": "file"}
    old, new = (make_pod("web", uid=uid, annotations=annotations) for uid in ("1", "2"))
    await harness.publish(old)

    await harness.publish(new)
    await harness.clock.advance(1)

    steps = harness.syncer.steps
    assert steps.index(("remove", "web")) < len(steps) - 1
    assert harness.workers.status("2").phase == "Running"


async def test_stopping_the_agent_leaves_pods_running(clock):
    harness = Harness(clock)
    async with living(harness):
        await harness.publish(make_pod("web"))

    assert harness.runtime.running() != []
    assert harness.names("terminating") == []


async def test_running_containers_are_adopted_without_restart(clock):
    harness, pod = Harness(clock), make_pod("web")
    harness.runtime.start("main", pod)
    await harness.cache.refresh(pod.uid)
    async with living(harness):
        await harness.publish(pod)

    assert len(harness.runtime.called("create_container")) == 0
    assert len(harness.runtime.running()) == 1


def working():
    return {labels: count for labels, count in WORKING.sample().items() if count}


async def test_working_pods_metric_counts_by_lifecycle_and_config(harness):
    static = make_pod("static", annotations={"kubernetes.io/config.source": "file"})
    job = make_pod("job", restart_policy="Never")
    await harness.publish(static, job)
    assert working() == {("sync", "desired", "true"): 1, ("sync", "desired", ""): 1}
    harness.runtime.exit(harness.runtime.pod(job.uid).containers[0].id, 0)
    await harness.cache.refresh(job.uid)
    harness.workers.trigger_sync(job.uid)
    await harness.clock.advance(0)
    assert working() == {("sync", "desired", "true"): 1, ("terminated", "desired", ""): 1}

    before = ORPHANS.value()
    harness.runtime.start("main", make_pod("stray"))
    await harness.cache.refresh("uid-stray")
    harness.workers.terminate_orphans(list(harness.cache.pods()))

    assert working()["terminating", "runtime_only", "unknown"] == 1
    assert ORPHANS.value() == before + 1
    assert len(WORKING.sample()) == 15


async def test_pod_recreated_with_same_uid_is_counted(harness):
    pod = make_pod("web", annotations={"kubernetes.io/config.source": "file"})
    before = RESTARTED.value("true"), RESTARTED.value("")
    await harness.publish(pod)

    harness.workers.publish("file", [])
    harness.workers.publish("file", [pod])
    await harness.clock.advance(1)

    assert (RESTARTED.value("true"), RESTARTED.value("")) == (before[0] + 1, before[1])
    assert harness.workers.status(pod.uid).phase == "Running"


async def test_pod_recreated_with_same_uid_keeps_its_containers(harness):
    pod = make_pod("web", annotations={"kubernetes.io/config.source": "file"})
    await harness.publish(pod)

    harness.workers.publish("file", [])
    harness.workers.publish("file", [pod])
    await harness.clock.advance(1)

    assert ("remove", "web") not in harness.syncer.steps
    harness.workers.publish("file", [])
    harness.workers.publish("file", [pod])
    harness.workers.publish("file", [])
    await harness.clock.advance(1)
    assert ("remove", "web") in harness.syncer.steps


async def test_changes_of_a_publication_are_logged_by_operation(harness, caplog):
    caplog.set_level(1, "nodeagent.podworker.workers")
    deletion = {"deletion_timestamp": harness.clock.wall(), "deletion_grace_period_seconds": 30}
    one, other = make_pod("a"), make_pod("b")
    lines = []
    for pods in (
        [one, other],
        [make_pod("a", labels={"changed": "yes"}), other],
        [make_pod("a", metadata=deletion), make_pod("b", status=PodStatus(phase="Running"))],
        [],
    ):
        caplog.clear()
        await harness.publish(*pods)
        lines.append([(r.message, r.pods) for r in caplog.records if r.message.startswith("SyncLoop")])

    assert lines == [
        [("SyncLoop ADD", ["default/a", "default/b"])],
        [("SyncLoop UPDATE", ["default/a"])],
        [("SyncLoop DELETE", ["default/a"]), ("SyncLoop RECONCILE", ["default/b"])],
        [("SyncLoop REMOVE", ["default/a", "default/b"])],
    ]


async def test_terminated_pods_are_neither_active_nor_represented(harness):
    static = {"kubernetes.io/config.source": "file"}
    pods = [make_pod("a", annotations=static), make_pod("b", annotations=static)]
    await harness.publish(*pods)
    assert [pod.name for pod in harness.workers.active()] == ["a", "b"]
    harness.workers.kill(pods[0].uid, KillReason.EVICTED, "no room", grace_seconds=0)
    await harness.clock.advance(30)

    assert [pod.name for pod in harness.workers.active()] == ["b"]
    assert sorted(pod.name for pod in harness.workers.static_pods()) == ["a", "b"]
    await harness.publish(pods[1])
    await harness.clock.advance(30)
    assert [pod.name for pod in harness.workers.static_pods()] == ["b"]
