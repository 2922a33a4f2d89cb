"""Tests for the pod syncer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import ContainerState, ExecResult
from nodeagent.errors import ImageError, RuntimeFailure, RuntimeUnavailable, VolumeError
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync import disk
from nodeagent_plugins.pod_sync.metrics import CLEANED_ORPHANS, ORPHANS_LEFT


async def test_pod_is_started_with_the_minimum_of_calls(bench):
    pod = make_pod("web", containers=["main"])

    outcome = await bench.sync(pod)

    assert bench.calls == ["run_sandbox", "sandbox_status", "create_container", "start_container"]
    assert outcome.error is None and not outcome.waiting
    assert outcome.touched == {bench.runtime.pod(pod.uid).sandboxes[0].id, bench.id_of(pod, "main")}
    assert bench.runtime.running() == ["web/main"]
    assert [r for r in bench.reasons() if r in ("Created", "Started")] == ["Created", "Started"]
    assert bench.hooks.announced == [("nodeagent_container_started", "main")]


async def test_running_pod_needs_no_calls(bench):
    pod = make_pod("web")
    await bench.sync(pod)
    calls = len(bench.calls)

    outcome = await bench.sync(pod, times=3)

    assert len(bench.calls) == calls
    assert not outcome.touched


async def test_restarted_agent_adopts_running_containers(bench):
    pod = make_pod("web", init_containers=["init"], containers=["main", "side"])
    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "init"), 0)
    await bench.sync(pod)
    calls = len(bench.calls)

    bench.restart_agent()
    outcome = await bench.sync(pod)

    assert len(bench.calls) == calls
    assert not outcome.touched and outcome.error is None


async def test_pod_outside_of_its_cgroup_is_restarted(bench):
    pod = make_pod("web")
    await bench.sync(pod)
    first = bench.id_of(pod, "main")

    bench.restart_agent()
    bench.context.cgroups.missing.add(pod.uid)
    outcome = await bench.sync(pod)

    assert bench.runtime.running() == []
    assert first in outcome.touched
    await bench.sync(pod, times=2)
    assert bench.runtime.running() == ["web/main"]
    assert bench.context.cgroups.missing == set()


async def test_created_container_is_reused(bench):
    pod = make_pod("web")
    bench.runtime.fail("start_container", RuntimeUnavailable("gone"))
    assert (await bench.sync(pod)).error is not None
    bench.restart_agent()

    outcome = await bench.sync(pod)

    assert outcome.error is None
    assert bench.calls.count("create_container") == 1
    assert bench.runtime.pod(pod.uid).containers[0].attempt == 0
    assert bench.runtime.running() == ["web/main"]


async def test_init_containers_run_one_after_the_other(bench):
    pod = make_pod("web", init_containers=["first", "second"])

    await bench.sync(pod, times=2)
    assert bench.runtime.running() == ["web/first"]
    bench.runtime.exit(bench.id_of(pod, "first"), 0)
    await bench.sync(pod, times=2)
    assert bench.runtime.running() == ["web/second"]
    bench.runtime.exit(bench.id_of(pod, "second"), 0)
    await bench.sync(pod, times=2)

    assert bench.runtime.running() == ["web/main"]


async def test_crashing_container_has_an_increasing_back_off(bench, clock):
    pod = make_pod("web")
    await bench.sync(pod)
    waits = []
    for _ in range(8):
        await clock.advance(1)
        bench.runtime.exit(bench.id_of(pod, "main"), 1)
        outcome = await bench.sync(pod)
        while outcome.waiting:
            assert outcome.waiting["main"].reason == "CrashLoopBackOff"
            assert outcome.error is None
            waits.append(outcome.retry_seconds)
            bench.restart_agent()  # The back-off persists.
            await clock.advance(outcome.retry_seconds)
            outcome = await bench.sync(pod)

    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert "BackOff" in bench.reasons()


async def test_restart_after_failed_probe_counts_from_the_exit_before(bench, clock):
    pod = make_pod("web", containers=[make_container(liveness_probe={"exec": {"command": ["check"]}})])
    await bench.sync(pod)
    delayed = []
    for _ in range(5):
        await clock.advance(30)
        bench.context.prober.results[bench.id_of(pod, "main"), ProbeKind.LIVENESS] = ProbeResult.FAILURE
        delayed.append((await bench.sync(pod)).waiting != {})

    outcome = await bench.sync(pod)
    await clock.advance(outcome.retry_seconds)
    await bench.sync(pod)

    # Before the fifth restart the back-off is 40 s and the exit before 30 s ago, so the exit just made counts.
    assert delayed == [False, False, False, False, True]
    assert outcome.retry_seconds == 40
    assert bench.runtime.running() == ["web/main"]


async def test_back_off_message_contains_the_delay(bench, clock):
    pod = make_pod("web")
    await bench.sync(pod)
    for _ in range(2):
        bench.runtime.exit(bench.id_of(pod, "main"), 1)
        outcome = await bench.sync(pod)

    message = "back-off 10s restarting failed container=main pod=web_default(uid-web)"
    assert outcome.waiting["main"].message == message


async def test_failed_pull_affects_only_its_container(bench):
    pod = make_pod("web", containers=["one", "two"])
    bench.context.puller.fail("ensure", ImageError("registry answered 404"))

    outcome = await bench.sync(pod)

    assert outcome.waiting["one"].reason == "ErrImagePull"
    assert outcome.error is not None
    assert bench.runtime.running() == ["web/two"]


async def test_image_back_off_does_not_fail_the_step(bench):
    pod = make_pod("web")
    bench.context.puller.fail("ensure", ImageError("Back-off pulling image", reason="ImagePullBackOff"))

    outcome = await bench.sync(pod)

    assert outcome.waiting["main"].reason == "ImagePullBackOff"
    assert outcome.error is None and outcome.retry_seconds is not None


async def test_failed_creation_has_a_reason(bench):
    pod = make_pod("web")
    bench.runtime.fail("create_container", RuntimeFailure("no space left"))

    outcome = await bench.sync(pod)

    assert outcome.waiting["main"].reason == "CreateContainerError"
    assert bench.notes("Failed") == ["Error: no space left"]


async def test_failed_start_has_a_reason(bench):
    pod = make_pod("web")
    container_id = "container-0002-main"
    bench.runtime.fail("start_container", RuntimeFailure(f"start container {container_id}: exec: no such file"))

    outcome = await bench.sync(pod)

    assert bench.id_of(pod, "main") == container_id
    assert outcome.waiting["main"].reason == "RunContainerError"
    assert bench.notes("Failed") == ["Error: start container main: exec: no such file"]  # the same for each try
    assert outcome.error is not None


async def test_changed_definition_restarts_the_container_under_every_policy(bench):
    pod = make_pod("web", containers=[make_container("main", args=["a"])], restart_policy="Never")
    await bench.sync(pod)
    changed = make_pod("web", containers=[make_container("main", args=["b"])], restart_policy="Never")

    await bench.sync(changed)

    assert bench.notes("Killing") == ["Container main definition changed, will be restarted"]
    assert [config.args for config in bench.made()] == [["a"], ["b"]]
    assert bench.runtime.running() == ["web/main"]


async def test_exited_sandbox_is_replaced_with_its_containers(bench, clock):
    pod = make_pod("web", init_containers=["init"])
    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "init"), 0)
    await bench.sync(pod)
    bench.runtime.kill_sandbox(bench.runtime.pod(pod.uid).sandboxes[0].id)

    await bench.sync(pod)

    assert [sandbox.attempt for sandbox in bench.sandboxes()] == [0, 1]
    assert bench.runtime.running() == ["web/init"]
    assert "SandboxChanged" in bench.reasons()
    assert bench.made()[-1].attempt == 1


async def test_failed_sandbox_creation_is_reported(bench):
    pod = make_pod("web")
    bench.runtime.fail("run_sandbox", RuntimeFailure("network broken"))

    outcome = await bench.sync(pod)

    assert str(outcome.error) == "network broken"
    assert bench.notes("FailedCreatePodSandBox") == ["Failed to create pod sandbox: network broken"]


async def test_nothing_starts_before_the_volumes_are_ready(bench):
    pod = make_pod("web", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    bench.context.volumes.fail("prepare", VolumeError("v: secret is missing"))

    outcome = await bench.sync(pod)

    assert isinstance(outcome.error, VolumeError)
    assert bench.calls == []
    assert bench.notes("FailedMount") == ["v: secret is missing"]


async def test_files_of_a_container_have_the_expected_paths(bench):
    pod = make_pod("web")
    await bench.sync(pod)
    container_id = bench.id_of(pod, "main")

    logs = bench.log_root / "pods" / "default_web_uid-web"
    assert (logs / "main").is_dir()
    assert bench.sandboxes()[0].log_directory == str(logs)
    config = bench.made()[0]
    assert config.log_path == "main/0.log"
    link = bench.log_root / "containers" / f"web_default_main-{container_id}.log"
    assert os.readlink(link) == str(logs / "main/0.log")
    message = next(mount for mount in config.mounts if mount.container_path == "/dev/termination-log")
    assert os.stat(message.host_path).st_mode & 0o777 == 0o666
    hosts = next(mount for mount in config.mounts if mount.container_path == "/etc/hosts")
    assert f"{bench.runtime.pod(pod.uid).ips[0]}\tweb\n" in Path(hosts.host_path).read_text()


async def test_attempt_continues_after_the_highest_log_file(bench):
    pod = make_pod("web")
    directory = bench.log_root / "pods" / "default_web_uid-web" / "main"
    directory.mkdir(parents=True)
    (directory / "4.log").touch()

    await bench.sync(pod)

    assert bench.made()[0].attempt == 5


# --- the end ------------------------------------------------------------------------------------------------------


async def test_terminating_stops_containers_then_sandboxes(bench):
    pod = make_pod("web", containers=["one", "two"])
    await bench.sync(pod)

    outcome = await bench.terminate(pod, 7)

    assert bench.calls[-3:] == ["stop_container", "stop_container", "stop_sandbox"]
    assert [call.arguments[1] for call in bench.runtime.called("stop_container")] == [7, 7]
    assert not bench.runtime.pod(pod.uid).alive
    assert outcome.error is None
    assert sorted(bench.notes("Killing")) == ["Stopping container one", "Stopping container two"]
    assert pod.uid in bench.context.prober.liveness_ended


async def test_terminated_pod_releases_its_resources_and_keeps_its_logs(bench):
    pod = make_pod("web")
    await bench.sync(pod)
    await bench.terminate(pod)

    await bench.syncer.sync_terminated(pod, bench.runtime.pod(pod.uid))

    assert bench.context.volumes.released == [pod.uid]
    assert bench.context.cgroups.removed == [pod.uid]
    assert pod.uid not in bench.context.objects.registered
    assert len(bench.runtime.pod(pod.uid).containers) == 1
    assert (bench.log_root / "pods" / "default_web_uid-web").is_dir()


async def test_removed_pod_has_no_files(bench):
    pod = make_pod("web")
    await bench.sync(pod)
    await bench.terminate(pod)
    await bench.syncer.sync_terminated(pod, bench.runtime.pod(pod.uid))

    await bench.syncer.remove_pod(pod, bench.runtime.pod(pod.uid))

    left = bench.runtime.pod(pod.uid)
    assert not left.sandboxes and not left.containers
    assert not bench.context.pod_dir(pod.uid).exists()
    assert os.listdir(bench.log_root / "pods") == []
    assert os.listdir(bench.log_root / "containers") == []


async def test_removed_pod_keeps_unexpected_files(bench):
    pod = make_pod("web")
    await bench.sync(pod)
    await bench.terminate(pod)
    stray = bench.context.pod_dir(pod.uid) / "volumes" / "data"
    stray.write_text("precious")

    await bench.syncer.remove_pod(pod, bench.runtime.pod(pod.uid))

    assert stray.read_text() == "precious"


async def test_orphan_is_stopped_according_to_its_annotations(bench):
    hook = {"preStop": {"exec": {"command": ["bye"]}}}
    pod = make_pod("web", containers=[make_container("main", lifecycle=hook)], termination_grace_period_seconds=40)
    await bench.sync(pod)
    bench.restart_agent()
    orphan = make_pod("web", containers=[])

    await bench.terminate(orphan, None)

    assert bench.runtime.called("exec_sync")[0].arguments[1] == ("bye",)
    assert bench.runtime.called("stop_container")[0].arguments[1] == 40


async def test_dead_containers_except_the_latest_are_removed(bench, clock):
    pod = make_pod("web")
    await bench.sync(pod)
    for _ in range(3):
        await clock.advance(20)
        bench.runtime.exit(bench.id_of(pod, "main"), 1)
        await clock.advance(300)
        await bench.sync(pod)
    (bench.log_root / "pods/default_web_uid-web/main/1.log").touch()
    await bench.sync(pod)

    states = [c.state for c in bench.runtime.pod(pod.uid).containers]
    assert states == [ContainerState.RUNNING, ContainerState.EXITED]
    links = os.listdir(bench.log_root / "containers")
    assert len(links) == 2


async def test_orphaned_directories_and_cgroups_are_removed(bench):
    gone, kept = bench.context.pod_dir("gone"), bench.context.pod_dir("kept")
    for directory in (gone, kept):
        (directory / "containers" / "main").mkdir(parents=True)
    (bench.log_root / "pods" / "ns_web_gone").mkdir(parents=True)
    (bench.log_root / "pods" / "ns_web_kept").mkdir(parents=True)
    bench.context.cgroups.created = {"gone": make_pod("x"), "kept": make_pod("y")}

    await bench.syncer.remove_orphans({"kept"}.__contains__)

    assert not gone.exists() and kept.exists()
    assert bench.context.cgroups.removed == ["gone"]
    assert os.listdir(bench.log_root / "pods") == ["ns_web_kept"]


async def test_pods_that_are_added_during_the_cleanup_are_kept(bench, monkeypatch):
    known, context = set(), bench.context
    new, logs = context.pod_dir("new"), bench.log_root / "pods" / "ns_web_new"
    context.pod_dir("gone").mkdir(parents=True)
    release, list_directories = context.volumes.release, disk.directories

    def add(uid):
        known.add(uid)
        for directory in (new, logs):
            directory.mkdir(parents=True, exist_ok=True)
        context.cgroups.created = {"new": make_pod("new")}

    async def slowly(uid):
        add("new")
        await release(uid)

    def directories(root):
        if root == new.parent:
            add("new")  # While the thread starts.
        return list_directories(root)

    for changed in ((context.volumes, "release", slowly), (disk, "directories", directories)):
        with monkeypatch.context() as patch:
            patch.setattr(*changed)
            await bench.syncer.remove_orphans(known.__contains__)

        assert new.exists() and logs.exists()
        assert context.cgroups.removed == []
        known.clear()
        context.pod_dir("gone").mkdir(parents=True, exist_ok=True)


async def test_orphaned_logs_of_another_agent_are_kept(bench, tmp_path):
    logs = bench.log_root / "pods"
    other = tmp_path / "other-agent"
    other.mkdir()
    for uid, owner in (("other", other), ("removed", tmp_path / "gone"), ("own", bench.context.root_dir)):
        directory = logs / f"default_web_{uid}"
        directory.mkdir(parents=True)
        (directory / ".owner").write_text(f"{owner}\n")

    await bench.syncer.remove_orphans(set().__contains__)

    assert [directory.name for directory in logs.iterdir()] == ["default_web_other"]


async def test_log_directory_names_the_agent_that_created_it(bench):
    await bench.sync(make_pod("web"))

    (owner,) = (bench.log_root / "pods").glob("*/.owner")
    assert owner.read_text() == f"{bench.context.root_dir}\n"


async def test_metrics_count_orphans_found_and_left(bench, caplog):
    for uid in ("one", "other"):
        bench.context.pod_dir(uid).mkdir(parents=True)
    bench.context.volumes.fail("release", VolumeError("busy"), times=1)

    await bench.syncer.remove_orphans(set().__contains__)
    assert (CLEANED_ORPHANS.value(), ORPHANS_LEFT.value()) == (2, 1)
    assert caplog.messages == ["Failed cleaning up orphaned pod directories"]
    await bench.syncer.remove_orphans(set().__contains__)
    assert (CLEANED_ORPHANS.value(), ORPHANS_LEFT.value()) == (1, 0)
    await bench.syncer.remove_orphans(set().__contains__)

    assert (CLEANED_ORPHANS.value(), ORPHANS_LEFT.value()) == (0, 0)


# --- hooks --------------------------------------------------------------------------------------------------------


async def test_failed_post_start_hook_kills_the_container(bench):
    hook = {"postStart": {"exec": {"command": ["hello", "secret-word"]}}}
    pod = make_pod("web", containers=[make_container("main", lifecycle=hook)])
    bench.runtime.on_exec("main", ExecResult(3, b"", b"no"))

    outcome = await bench.sync(pod)

    assert outcome.waiting["main"].reason == "PostStartHookError"
    assert bench.notes("FailedPostStartHook") == ["PostStartHook failed"]
    assert "secret-word" not in "".join(event.note for event in bench.context.recorder.events)
    assert bench.runtime.running() == []


async def test_hook_mutate_sandbox(bench):
    bench.hooks.changes["nodeagent_mutate_sandbox"] = lambda config: replace(config, hostname="other")

    await bench.sync(make_pod("web"))

    assert bench.sandboxes()[0].hostname == "other"


async def test_hook_mutate_container(bench):
    bench.hooks.changes["nodeagent_mutate_container"] = lambda config: replace(config, working_dir="/work")

    await bench.sync(make_pod("web"))

    assert bench.made()[0].working_dir == "/work"


async def test_hook_container_started(bench):
    await bench.sync(make_pod("web"))

    assert bench.hooks.announced == [("nodeagent_container_started", "main")]


async def test_hook_container_stopped(bench):
    pod = make_pod("web")
    await bench.sync(pod)

    await bench.terminate(pod)

    assert bench.hooks.announced[-1] == ("nodeagent_container_stopped", "main")


async def test_lost_process_of_a_container_is_killed(bench, clock):
    pod = make_pod("web")
    await bench.sync(pod)
    first = bench.id_of(pod, "main")
    bench.runtime.exit(first, 1)
    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "main"), 1)
    bench.runtime.fail("remove_container", RuntimeFailure("cannot delete running task"))
    await clock.advance(10)

    await bench.sync(pod)
    assert bench.context.cgroups.killed == [(pod.uid, first)]

    await bench.sync(pod)
    assert first not in [container.id for container in bench.runtime.pod(pod.uid).containers]


@pytest.mark.parametrize(("known", "stops"), [(True, 1), (False, 2)])
async def test_sandbox_is_stopped_once_while_its_pod_is_known(bench, known, stops):
    pod = make_pod("web")
    await bench.sync(pod)
    await bench.terminate(pod)

    await bench.syncer.remove_orphans(lambda uid: known)
    await bench.terminate(pod)

    assert len(bench.runtime.called("stop_sandbox")) == stops


async def test_stopped_pod_releases_its_claims(bench):
    released = []

    class Claims:
        async def release_pod(self, pod):
            released.append(pod.name)

    bench.context.claims = None
    await bench.syncer.sync_stopped(make_pod("plain"))
    bench.context.claims = Claims()
    await bench.syncer.sync_stopped(make_pod("web"))

    assert released == ["web"]


async def test_resources_of_the_pod_itself_are_recorded(bench):
    sized = make_pod("sized", resources={"limits": {"cpu": "1"}})
    for pod in (make_pod("plain"), sized):
        await bench.sync(pod)

    actuated = bench.context.allocations.pod_actuated
    assert (actuated("uid-plain"), actuated("uid-sized")) == (None, sized.spec.resources)
