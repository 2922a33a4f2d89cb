"""Tests for restarting all containers of a pod because of a restart rule."""

from __future__ import annotations

import msgspec

from nodeagent.contracts.runtime import ContainerState
from nodeagent.errors import RuntimeFailure
from nodeagent.model.pod import Pod, PodCondition, PodStatus
from nodeagent.testing import make_container, make_pod

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
HOOK = {"preStop": {"exec": {"command": ["drain"]}}}


def pod_with_rule(**more) -> Pod:
    trigger = make_container("trigger", restart_policy="Never", restart_policy_rules=[RULE])
    other = make_container("other", lifecycle=HOOK)
    return make_pod("web", init_containers=["init"], containers=[trigger, other], restart_policy="Never", **more)


def restarting(pod: Pod) -> Pod:
    """Return *pod* with the condition that the status reports after the exit."""
    condition = PodCondition(type="AllContainersRestarting", status="True")
    return msgspec.structs.replace(pod, status=PodStatus(conditions=[condition]))


async def start_and_exit(bench, pod: Pod) -> None:
    """Start all containers of *pod*, then end the one with the rule."""
    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "init"), 0)
    await bench.sync(pod, times=2)
    bench.runtime.exit(bench.id_of(pod, "trigger"), 42)


def removed_names(bench, ids: dict[str, str]) -> list[str]:
    return [ids[call.arguments[0]] for call in bench.runtime.called("remove_container")]


async def test_all_containers_are_killed_and_the_cause_is_removed_last(bench):
    pod = pod_with_rule()
    await start_and_exit(bench, pod)
    ids = {bench.id_of(pod, name): name for name in ("init", "trigger", "other")}

    outcome = await bench.sync(restarting(pod))

    assert removed_names(bench, ids) == ["other", "init", "trigger"]
    assert [call.arguments[0] for call in bench.runtime.called("stop_container")] == [
        container_id for container_id, name in ids.items() if name == "other"
    ]
    assert outcome.error is None and outcome.retry_seconds == 0 and outcome.touched == set(ids)
    assert bench.notes("Killing") == ["killing"]
    assert not bench.runtime.called("exec")


async def test_pod_starts_again_in_its_sandbox(bench):
    pod = pod_with_rule()
    await start_and_exit(bench, pod)
    sandbox = bench.runtime.pod(pod.uid).sandboxes[0].id
    await bench.sync(restarting(pod))

    await bench.sync(pod)

    assert bench.runtime.running() == ["web/init"]
    assert [each.id for each in bench.runtime.pod(pod.uid).sandboxes] == [sandbox]


async def test_failed_removal_leaves_the_cause_for_the_next_sync(bench):
    pod = pod_with_rule()
    await start_and_exit(bench, pod)
    bench.runtime.fail("remove_container", RuntimeFailure("busy"))

    outcome = await bench.sync(restarting(pod))

    assert outcome.error is not None
    trigger = bench.runtime.pod(pod.uid).newest("trigger")
    assert trigger is not None and trigger.state is ContainerState.EXITED

    bench.restart_agent()
    await bench.sync(restarting(pod))
    assert bench.runtime.pod(pod.uid).containers == ()


async def test_ephemeral_container_keeps_running(bench):
    pod = pod_with_rule(ephemeral_containers=[{"name": "debug", "image": "busybox"}])
    await start_and_exit(bench, pod)

    await bench.sync(restarting(pod))

    assert bench.runtime.running() == ["web/debug"]


async def test_log_of_a_removed_container_is_kept(bench):
    pod = pod_with_rule()
    await start_and_exit(bench, pod)
    directory = bench.log_root / "pods" / f"default_web_{pod.uid}" / "trigger"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "0.log").write_text("last line\n")

    await bench.sync(restarting(pod))
    assert (directory / "0.log").read_text() == "last line\n"

    await bench.sync(pod)
    bench.runtime.exit(bench.id_of(pod, "init"), 0)
    await bench.sync(pod, times=2)
    newest = bench.runtime.pod(pod.uid).newest("trigger")
    assert newest is not None and newest.attempt == 1
