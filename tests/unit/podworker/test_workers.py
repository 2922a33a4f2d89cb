"""Tests for pod workers: adoption, orphans, predecessors, metrics and logs of publications."""

from nodeagent.base.logging import v_level
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


async def test_pod_that_replaces_one_of_another_uid_is_not_counted_as_restarted(harness):
    annotations = {"kubernetes.io/config.source": "file"}
    old, new = (make_pod("web", uid=uid, annotations=annotations) for uid in ("1", "2"))
    await harness.publish(old)
    before = RESTARTED.value("true"), RESTARTED.value("")

    await harness.publish(new)
    await harness.clock.advance(1)

    assert harness.workers.status("2").phase == "Running"
    assert (RESTARTED.value("true"), RESTARTED.value("")) == before


async def test_pod_is_syncing_for_the_first_seconds_of_a_sync(harness):
    pod = make_pod("web")
    harness.syncer.hang = True
    assert not harness.workers.is_syncing(pod.uid)
    await harness.publish(pod)
    found = []
    for _ in range(3):
        found.append(harness.workers.is_syncing(pod.uid))
        await harness.clock.advance(2.5)

    assert found == [True, True, False]


async def test_pod_that_terminates_or_is_idle_is_not_syncing(harness):
    web, idle = make_pod("web"), make_pod("idle")
    await harness.publish(web, idle)
    harness.syncer.stuck = True
    harness.workers.kill(web.uid, KillReason.EVICTED, "no room")
    await harness.clock.advance(0)

    assert not harness.workers.is_syncing(web.uid)
    assert not harness.workers.is_syncing(idle.uid)


async def test_unknown_pod_is_neither_killed_nor_triggered(harness):
    harness.workers.kill("unknown", KillReason.EVICTED, "no room")
    harness.workers.trigger_sync("unknown")

    assert harness.workers.get("unknown") is None
    assert harness.workers.reported_status("unknown") is None
    assert harness.workers.snapshot("unknown") is None


async def test_mirror_pod_is_not_a_pod_of_the_node(harness):
    mirror = make_pod("mirror", annotations={"kubernetes.io/config.mirror": "hash"})

    await harness.publish(mirror)

    assert harness.workers.get(mirror.uid) is None
    assert harness.workers.is_known(mirror.uid)
    assert harness.runtime.running() == []


async def test_workers_that_do_not_run_have_no_status(clock):
    harness, pod = Harness(clock), make_pod("web")
    harness.workers.publish("file", [pod])

    assert harness.workers.get(pod.uid) == pod
    assert harness.workers.status(pod.uid) is None
    assert harness.workers.reported_status(pod.uid) is None
    assert harness.workers.observed(pod.uid) is None
    assert harness.workers.admission_problem(pod.uid) == ""


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
    lines, levels = [], {}
    for pods in (
        [one, other],
        [make_pod("a", labels={"changed": "yes"}), other],
        [make_pod("a", metadata=deletion), make_pod("b", status=PodStatus(phase="Running"))],
        [],
    ):
        caplog.clear()
        await harness.publish(*pods)
        records = [record for record in caplog.records if record.message.startswith("SyncLoop")]
        lines.append([(record.message, record.pods) for record in records])
        levels |= {record.message: record.levelno for record in records}

    others = ("SyncLoop ADD", "SyncLoop UPDATE", "SyncLoop DELETE", "SyncLoop REMOVE")
    assert levels == {"SyncLoop RECONCILE": v_level(4), **dict.fromkeys(others, v_level(2))}
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
