"""Tests for the next steps of a pod."""

from __future__ import annotations

import dataclasses

import pytest

from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import (
    ANNOTATION_HASH,
    ContainerState,
    NamespaceMode,
    RuntimeContainerStatus,
    RuntimePod,
    SandboxStatus,
)
from nodeagent.model.pod import Pod
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.actions import ContainerChecks, compute_actions
from nodeagent_plugins.pod_sync.labels import ANNOTATION_SANDBOX

NANO = 1_000_000_000
RUNNING, EXITED, CREATED, UNKNOWN = (
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.CREATED,
    ContainerState.UNKNOWN,
)


def sandbox(number: int = 1, *, ready: bool = True, ips: tuple[str, ...] = ("10.0.0.1",), **more) -> SandboxStatus:
    return SandboxStatus(f"s{number}", "web", "uid-web", "default", number - 1, ready, number * NANO, ips, **more)


def seen(
    name: str, state: ContainerState = RUNNING, *, attempt: int = 0, exit_code: int = 0, owner: str = "s1", **more
):
    values = {
        "created_at": 2 * NANO,
        "started_at": 2 * NANO,
        "finished_at": 3 * NANO if state is EXITED else 0,
        "annotations": {ANNOTATION_SANDBOX: owner},
        **more,
    }
    return RuntimeContainerStatus(
        id=f"{name}-{attempt}",
        name=name,
        attempt=attempt,
        state=state,
        exit_code=exit_code,
        image="i",
        image_ref="i",
        **values,
    )


def runtime_pod(*containers: RuntimeContainerStatus, sandboxes=None) -> RuntimePod:
    return RuntimePod("uid-web", "web", "default", (sandbox(),) if sandboxes is None else sandboxes, containers)


def decide(pod: Pod, observed: RuntimePod, probes: dict[tuple[str, ProbeKind], ProbeResult] | None = None):
    return compute_actions(
        pod, observed, ContainerChecks(lambda container, kind: (probes or {}).get((container, kind)))
    )


def names(actions) -> list[str]:
    return [start.container.name for start in actions.starts]


def test_new_pod_gets_a_sandbox_and_its_containers():
    actions = decide(make_pod(containers=["a", "b"]), runtime_pod(sandboxes=()))

    assert actions.create_sandbox and not actions.stop_pod and not actions.changed_sandbox
    assert names(actions) == ["a", "b"]


def test_running_pod_needs_no_action():
    actions = decide(make_pod(), runtime_pod(seen("main")))

    assert not (actions.create_sandbox or actions.stop_pod or actions.kills or actions.starts)


@pytest.mark.parametrize(
    "sandboxes",
    [
        (sandbox(ready=False),),
        (sandbox(2), sandbox(1)),
        (sandbox(network_mode=NamespaceMode.NODE),),
        (sandbox(ips=()),),
    ],
    ids=["not ready", "two ready", "other network", "no address"],
)
def test_unusable_sandbox_is_replaced_after_everything_is_stopped(sandboxes):
    actions = decide(make_pod(), runtime_pod(seen("main"), sandboxes=sandboxes))

    assert actions.stop_pod and actions.create_sandbox and actions.changed_sandbox
    assert actions.sandbox_attempt == sandboxes[0].attempt + 1


def test_pod_in_the_host_network_needs_no_address():
    own = (sandbox(ips=(), network_mode=NamespaceMode.NODE),)

    assert not decide(make_pod(host_network=True), runtime_pod(seen("main"), sandboxes=own)).create_sandbox


@pytest.mark.parametrize(("policy", "code"), [("Never", 1), ("OnFailure", 0)])
def test_finished_pod_gets_no_new_sandbox(policy, code):
    observed = runtime_pod(seen("main", EXITED, exit_code=code), sandboxes=(sandbox(ready=False),))

    actions = decide(make_pod(restart_policy=policy), observed)

    assert actions.stop_pod and not actions.create_sandbox and not actions.starts


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policies(policy, code, again):
    pod = make_pod(containers=["a", "b"], restart_policy=policy)

    actions = decide(pod, runtime_pod(seen("a"), seen("b", EXITED, exit_code=code)))

    assert names(actions) == (["b"] if again else [])


def test_container_of_a_lost_sandbox_counts_for_attempt_and_policy():
    pod = make_pod(containers=["a", "b"], restart_policy="OnFailure")
    old = [seen("a", EXITED, exit_code=1, attempt=3), seen("b", EXITED, exit_code=0)]

    actions = decide(pod, runtime_pod(*old, sandboxes=(sandbox(ready=False),)))

    assert [(start.container.name, start.attempt) for start in actions.starts] == [("a", 4)]


def test_container_in_unknown_state_is_killed_and_restarted():
    actions = decide(make_pod(restart_policy="Never"), runtime_pod(seen("main", UNKNOWN)))

    assert [kill.status.name for kill in actions.kills] == ["main"]
    assert names(actions) == ["main"]


@pytest.mark.parametrize("kind", [ProbeKind.LIVENESS, ProbeKind.STARTUP])
@pytest.mark.parametrize(("policy", "again"), [("Always", True), ("Never", False)])
def test_failed_probe_kills_with_its_grace_period(kind, policy, again):
    probe = {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 5}
    field = "liveness_probe" if kind is ProbeKind.LIVENESS else "startup_probe"
    pod = make_pod(containers=[make_container("main", **{field: probe}), "other"], restart_policy=policy)

    actions = decide(pod, runtime_pod(seen("main"), seen("other")), {("main-0", kind): ProbeResult.FAILURE})

    assert [(kill.status.name, kill.grace_seconds) for kill in actions.kills] == [("main", 5)]
    assert actions.kills[0].message.startswith(f"Container main failed {kind.value.lower()} probe")
    assert names(actions) == (["main"] if again else [])


def test_container_of_another_agent_keeps_running():
    theirs = seen("main", annotations={ANNOTATION_HASH: "abc"})

    actions = decide(make_pod(), runtime_pod(theirs))

    assert not actions.kills and not actions.starts


@pytest.mark.parametrize(
    "message", ["create task: context canceled: unknown", "start failed: : signal: killed: unknown"]
)
def test_interrupted_start_is_repeated_with_the_same_attempt(message):
    broken = seen("main", EXITED, exit_code=128, started_at=0, message=message)

    actions = decide(make_pod(restart_policy="Never"), runtime_pod(broken))

    assert actions.discards == [broken]
    assert [(start.container.name, start.attempt) for start in actions.starts] == [("main", 0)]


def test_container_never_started_in_a_lost_sandbox_is_not_a_run():
    made = seen("main", CREATED)
    observed = runtime_pod(made)
    dead = dataclasses.replace(observed, sandboxes=[dataclasses.replace(observed.sandboxes[0], ready=False)])

    actions = decide(make_pod(), dead)

    assert actions.discards == [made]
    assert [start.attempt for start in actions.starts] == [0]


# --- init containers and sidecars -----------------------------------------------------------------------------------

SIDECAR = make_container("proxy", restart_policy="Always")
PROBED = make_container("proxy", restart_policy="Always", startup_probe={"exec": {"command": ["x"]}})


def test_init_container_starts_before_all_others():
    actions = decide(make_pod(init_containers=["i", "j"]), runtime_pod(sandboxes=()))

    assert names(actions) == ["i"]


def test_failed_init_container_is_restarted_or_fails_the_pod():
    failed = runtime_pod(seen("i", EXITED, exit_code=1))

    assert names(decide(make_pod(init_containers=["i"]), failed)) == ["i"]
    ended = decide(make_pod(init_containers=["i"], restart_policy="Never"), failed)
    assert ended.stop_pod and not ended.starts


def test_init_containers_are_not_repeated_in_an_initialized_pod():
    actions = decide(make_pod(init_containers=["i"]), runtime_pod(seen("main", EXITED, exit_code=1)))

    assert names(actions) == ["main"]


def test_new_sandbox_is_initialized_again():
    old = [seen("i", EXITED), seen("main", EXITED, exit_code=1)]

    actions = decide(make_pod(init_containers=["i"]), runtime_pod(*old, sandboxes=(sandbox(2), sandbox(ready=False))))

    assert [(start.container.name, start.attempt) for start in actions.starts] == [("i", 1)]


def test_sidecars_without_startup_probe_start_with_the_next_container():
    pod = make_pod(init_containers=[SIDECAR, "i"])

    actions = decide(pod, runtime_pod(sandboxes=()))

    assert [(start.container.name, start.gate) for start in actions.starts] == [("proxy", True), ("i", True)]


def test_startup_probe_of_a_sidecar_delays_the_next_container():
    pod = make_pod(init_containers=[PROBED])

    assert names(decide(pod, runtime_pod(sandboxes=()))) == ["proxy"]
    assert names(decide(pod, runtime_pod(seen("proxy")))) == []
    passed = {("proxy-0", ProbeKind.STARTUP): ProbeResult.SUCCESS}
    assert names(decide(pod, runtime_pod(seen("proxy")), passed)) == ["main"]


def test_failed_startup_probe_of_a_sidecar_delays_the_next_container():
    pod = make_pod(init_containers=[PROBED])
    failed = {("proxy-0", ProbeKind.STARTUP): ProbeResult.FAILURE}

    assert names(decide(pod, runtime_pod(seen("proxy")), failed)) == ["proxy"]
    assert names(decide(pod, runtime_pod(seen("proxy", EXITED)))) == ["proxy"]


def test_restarted_sidecar_does_not_delay_containers_started_after_it():
    pod = make_pod(init_containers=[PROBED, "i"])

    assert names(decide(pod, runtime_pod(seen("proxy", EXITED), seen("i", EXITED, exit_code=1)))) == ["proxy", "i"]
    assert names(decide(pod, runtime_pod(seen("proxy"), seen("i", EXITED, exit_code=0)))) == ["main"]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_sidecar_is_restarted_under_every_policy(policy):
    pod = make_pod(init_containers=[SIDECAR], restart_policy=policy)

    actions = decide(pod, runtime_pod(seen("main"), seen("proxy", EXITED, exit_code=0)))

    assert names(actions) == ["proxy"]


def test_sidecars_of_a_finished_pod_are_stopped():
    pod = make_pod(init_containers=[SIDECAR], restart_policy="Never")

    actions = decide(pod, runtime_pod(seen("main", EXITED), seen("proxy")))

    assert actions.stop_pod and not actions.starts


# --- ephemeral containers -------------------------------------------------------------------------------------------


def test_ephemeral_container_starts_only_once():
    pod = make_pod(ephemeral_containers=[{"name": "debug"}])

    assert names(decide(pod, runtime_pod(seen("main")))) == ["debug"]
    assert names(decide(pod, runtime_pod(seen("debug", EXITED, exit_code=1), seen("main")))) == []


# --- restart policies of containers ---------------------------------------------------------------------------------

RETRY_3 = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]


def with_policy(name: str, policy: str | None, rules=None):
    return make_container(name, restart_policy=policy, restart_policy_rules=rules)


@pytest.mark.parametrize(
    ("policy", "rules", "code", "again"),
    [
        ("Always", None, 0, True),
        ("OnFailure", None, 1, True),
        ("OnFailure", None, 0, False),
        ("Never", RETRY_3, 3, True),
        ("Never", RETRY_3, 4, False),
        (None, None, 1, False),
    ],
)
def test_own_policy_decides_about_a_restart(policy, rules, code, again):
    pod = make_pod(restart_policy="Never", containers=["other", with_policy("main", policy, rules)])
    observed = runtime_pod(seen("other"), seen("main", EXITED, exit_code=code))

    assert names(decide(pod, observed)) == (["main"] if again else [])


def test_pod_ends_if_no_container_restarts_by_its_own_policy():
    pod = make_pod(restart_policy="Always", containers=[with_policy("main", "Never")])

    assert decide(pod, runtime_pod(seen("main", EXITED, exit_code=1))).stop_pod


def test_lost_sandbox_is_replaced_if_a_container_may_restart():
    pod = make_pod(restart_policy="Never", containers=[with_policy("main", "Never", RETRY_3)])
    lost = (sandbox(ready=False),)

    assert decide(pod, runtime_pod(seen("main"), sandboxes=lost)).create_sandbox


@pytest.mark.parametrize(("policy", "rules", "again"), [("Always", None, True), ("Never", RETRY_3, False)])
def test_failed_probe_restarts_by_policy_and_not_by_rules(policy, rules, again):
    container = make_container(
        "main", restart_policy=policy, restart_policy_rules=rules, liveness_probe={"exec": {"command": ["false"]}}
    )
    pod = make_pod(restart_policy="OnFailure", containers=[container])

    actions = decide(pod, runtime_pod(seen("main")), {("main-0", ProbeKind.LIVENESS): ProbeResult.FAILURE})

    assert len(actions.kills) == 1
    assert names(actions) == (["main"] if again else [])


@pytest.mark.parametrize(("pod_policy", "policy", "again"), [("Never", "OnFailure", True), ("Always", "Never", False)])
def test_own_policy_decides_about_a_retry_of_an_init_container(pod_policy, policy, again):
    pod = make_pod(restart_policy=pod_policy, init_containers=[with_policy("init", policy)])

    actions = decide(pod, runtime_pod(seen("init", EXITED, exit_code=1)))

    assert (names(actions), actions.stop_pod) == ((["init"], False) if again else ([], True))


@pytest.mark.parametrize(
    "observed",
    [runtime_pod(sandboxes=(sandbox(ready=False),)), runtime_pod(seen("main"), sandboxes=())],
    ids=["without containers", "without sandbox"],
)
def test_remains_of_a_pod_are_stopped_before_it_is_created_again(observed):
    actions = decide(make_pod(), observed)

    assert actions.stop_pod and actions.create_sandbox


def test_container_of_another_agent_belongs_to_the_sandbox_before_it():
    created = seen("main", CREATED, annotations={}, created_at=NANO)

    actions = decide(make_pod(), runtime_pod(created))

    assert [start.resume_id for start in actions.starts] == [created.id]
    assert actions.discards == []


@pytest.mark.parametrize(
    ("policy", "state", "killed"),
    [
        (None, UNKNOWN, ["Init container init is in unknown state"]),
        (None, EXITED, []),
        ("Always", UNKNOWN, ["Container init is in unknown state, try killing it before restart"]),
        ("Always", EXITED, []),
    ],
)
def test_init_container_in_unknown_state_is_killed_before_its_restart(policy, state, killed):
    pod = make_pod(init_containers=[make_container("init", restart_policy=policy)])

    actions = decide(pod, runtime_pod(seen("init", state, exit_code=1)))

    assert [kill.message for kill in actions.kills] == killed
    assert names(actions)[0] == "init"


PROBE = {"exec": {"command": ["x"]}}


@pytest.mark.parametrize(
    ("startup", "result", "started"),
    [
        (None, None, ["side", "main"]),
        (PROBE, ProbeResult.SUCCESS, ["side", "main"]),
        (PROBE, ProbeResult.UNKNOWN, ["side"]),
    ],
)
def test_restart_of_a_started_sidecar_does_not_delay_containers(startup, result, started):
    side = make_container("side", restart_policy="Always", startup_probe=startup, liveness_probe=PROBE)
    results = {("side-0", ProbeKind.LIVENESS): ProbeResult.FAILURE, ("side-0", ProbeKind.STARTUP): result}

    actions = decide(make_pod(init_containers=[side]), runtime_pod(seen("side")), results)

    assert [kill.message for kill in actions.kills] == ["Container side failed liveness probe, will be restarted"]
    assert names(actions) == started


@pytest.mark.parametrize("kind", [ProbeKind.LIVENESS, ProbeKind.STARTUP])
@pytest.mark.parametrize("result", [ProbeResult.SUCCESS, ProbeResult.UNKNOWN, None])
def test_container_without_failed_probe_keeps_running(kind, result):
    pod = make_pod(containers=[make_container("main", liveness_probe=PROBE, startup_probe=PROBE)])

    assert decide(pod, runtime_pod(seen("main")), {("main-0", kind): result}).kills == []


def test_result_of_a_removed_probe_is_ignored():
    failed = {("main-0", kind): ProbeResult.FAILURE for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP)}

    assert decide(make_pod(), runtime_pod(seen("main")), failed).kills == []
