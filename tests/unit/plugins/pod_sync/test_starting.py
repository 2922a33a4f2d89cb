"""Tests for the start of containers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.release import NEWEST
from nodeagent.config.features import build_gates
from nodeagent.contracts.api import RUNTIME_CLASSES
from nodeagent.contracts.configuration import CrashLoopBackOffConfig
from nodeagent.contracts.runtime import (
    ContainerState,
    IdMapping,
    LinuxResources,
    NamespaceMode,
    RuntimeHandler,
    UserNamespace,
)
from nodeagent.errors import (
    ApiUnavailable,
    NodeAgentError,
    PluginError,
    RuntimeFailure,
    RuntimeTimeout,
    RuntimeUnavailable,
)
from nodeagent.testing import FakeApi, make_config, make_container, make_pod
from nodeagent_plugins.pod_sync import starting
from nodeagent_plugins.pod_sync.labels import (
    ANNOTATION_DELETION_GRACE,
    ANNOTATION_MESSAGE_PATH,
    ANNOTATION_MESSAGE_POLICY,
)

NODE = {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.5"}], "allocatable": {"cpu": "3"}}}
KUBERNETES = {
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 443}]},
}
OTHER = {
    "metadata": {"name": "other", "namespace": "team"},
    "spec": {"clusterIP": "10.0.0.2", "ports": [{"port": 80}]},
}

USER_NAMESPACES = {"UserNamespacesSupport": True}


def env_names(bench) -> set[str]:
    return {name for name, _ in bench.made()[-1].envs if name.endswith("_SERVICE_HOST")}


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (None, {"KUBERNETES_SERVICE_HOST", "OTHER_SERVICE_HOST"}),
        (True, {"KUBERNETES_SERVICE_HOST", "OTHER_SERVICE_HOST"}),
        (False, {"KUBERNETES_SERVICE_HOST"}),
    ],
)
async def test_service_variables_are_set_if_enabled(make_bench, links, expected):
    bench = make_bench(context={"api": FakeApi()})
    bench.context.objects.service_list = [KUBERNETES, OTHER]

    await bench.sync(make_pod(namespace="team", enable_service_links=links))

    assert env_names(bench) == expected


async def test_only_api_pods_wait_for_the_service_cache(make_bench):
    bench = make_bench(context={"api": FakeApi()})
    bench.context.objects.fail("services", ApiUnavailable("not listed yet"), times=None)

    waiting = await bench.sync(make_pod("a"))
    static = await bench.sync(make_pod("b", annotations={"kubernetes.io/config.source": "file"}))

    assert waiting.waiting["main"].reason == "CreateContainerConfigError"
    assert static.error is None


async def test_static_pod_starts_while_the_api_server_does_not_respond(make_bench, monkeypatch):
    monkeypatch.setattr(starting, "STATIC_POD_SERVICES_SECONDS", 0.01)
    bench = make_bench(context={"api": FakeApi()})
    bench.context.objects.hang("services")

    static = await bench.sync(make_pod(annotations={"kubernetes.io/config.source": "file"}))

    assert static.error is None
    assert len(bench.made()) == 1


async def test_commands_are_expanded_and_limits_default_to_the_node(make_bench):
    bench = make_bench(context={"node": NODE})
    env = [
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    container = make_container("main", env=env, command=["run", "$(HOST)"], args=["$(CPU)", "$$(CPU)"])

    await bench.sync(make_pod(containers=[container]))

    assert bench.made()[0].command == ["run", "192.0.2.5"]
    assert bench.made()[0].args == ["3", "$(CPU)"]


async def test_pod_in_the_host_network_needs_no_sandbox_status(make_bench):
    bench = make_bench(context={"node": NODE})

    await bench.sync(make_pod(host_network=True))

    assert "sandbox_status" not in bench.calls
    assert bench.sandboxes()[0].hostname == ""
    assert bench.sandboxes()[0].security.namespaces.network is NamespaceMode.NODE
    assert "/etc/hosts" in {mount.container_path for mount in bench.made()[0].mounts}


async def test_sandbox_configuration_follows_the_pod(bench):
    port = {"containerPort": 80, "hostPort": 8080, "hostIP": "192.0.2.5"}
    pod = make_pod(
        containers=[make_container("main", ports=[port, {"containerPort": 81}])],
        labels={"app": "web"},
        annotations={"a": "b"},
        security_context={"sysctls": [{"name": "net.x", "value": "1"}, {"name": "net/ipv4/y", "value": "2"}]},
        overhead={"cpu": "100m", "memory": "64Mi"},
    )
    bench.context.cgroups.resources = lambda pod, _: LinuxResources(cpu_shares=12 if pod.spec.overhead else 10)

    await bench.sync(pod)

    config = bench.sandboxes()[0]
    assert [(p.container_port, p.host_port, p.host_ip) for p in config.port_mappings] == [(80, 8080, "192.0.2.5")]
    assert config.labels["app"] == "web" and config.annotations == {"a": "b"}
    assert config.sysctls == {"net.x": "1", "net.ipv4.y": "2"}  # Runtimes expect dots.
    assert config.cgroup_parent == "/pods/uid-web"
    assert config.overhead == LinuxResources(
        cpu_period=100_000, cpu_quota=10_000, cpu_shares=102, memory_limit_bytes=64 << 20
    )
    assert config.resources == LinuxResources(cpu_shares=10)  # a runtime adds the overhead itself


@pytest.mark.parametrize(
    ("runtime_class", "problem"),
    [
        (None, "can't set `spec.hostUsers: false`, runtime does not support user namespaces"),
        ("secure", 'RuntimeClass handler "kata" does not support user namespaces'),
    ],
)
async def test_user_namespace_without_support_of_the_handler_fails_the_sandbox(make_bench, runtime_class, problem):
    api = FakeApi()
    await api.create(RUNTIME_CLASSES, {"metadata": {"name": "secure"}, "handler": "kata"})
    bench = make_bench(context={"api": api}, feature_gates=USER_NAMESPACES)
    bench.runtime.handlers = [RuntimeHandler("runc", user_namespaces=True)]

    await bench.sync(make_pod(host_users=False, runtime_class_name=runtime_class))

    assert bench.notes("FailedCreatePodSandBox") == [f"Failed to create pod sandbox: {problem}"]
    assert bench.sandboxes() == []


@pytest.mark.row("gate.UserNamespacesSupport")
@pytest.mark.parametrize("enabled", [True, False])
async def test_user_namespace_requires_the_feature_gate(make_bench, enabled):
    bench = make_bench(feature_gates={"UserNamespacesSupport": enabled})
    bench.runtime.handlers = [RuntimeHandler("", user_namespaces=True)]

    await bench.sync(make_pod("a", host_users=False))
    await bench.sync(make_pod("b", host_users=True))

    problem = 'the feature gate "UserNamespacesSupport" is disabled: can\'t set spec.HostUsers'
    assert bench.notes("FailedCreatePodSandBox") == ([] if enabled else [f"Failed to create pod sandbox: {problem}"])
    assert [config.name for config in bench.sandboxes()] == (["a", "b"] if enabled else ["b"])


async def test_user_namespace_is_passed_to_sandbox_container_and_mounts(make_bench):
    bench = make_bench(feature_gates=USER_NAMESPACES)
    bench.runtime.handlers = [RuntimeHandler("", user_namespaces=True)]

    await bench.sync(make_pod("a", host_users=False))
    await bench.sync(make_pod("b", host_users=False))
    await bench.sync(make_pod("c", host_users=True))

    mappings = [(IdMapping(65536 * number, 0, 65536),) for number in (1, 2)]
    expected = [UserNamespace(mapping, mapping) for mapping in mappings]
    assert [config.security.namespaces.user for config in bench.sandboxes()] == [*expected, None]
    assert [config.security.namespaces.user for config in bench.made()] == [*expected, None]
    first, _, last = bench.made()
    assert {(mount.uids, mount.gids) for mount in first.mounts} == {(mappings[0], mappings[0])}
    assert {(mount.uids, mount.gids) for mount in last.mounts} == {((), ())}


async def test_user_namespace_survives_a_restart_and_is_released_with_the_pod(make_bench):
    bench = make_bench(feature_gates=USER_NAMESPACES)
    bench.runtime.handlers = [RuntimeHandler("", user_namespaces=True)]
    pod = make_pod("a", host_users=False)
    await bench.sync(pod)
    file = bench.context.pod_dir(pod.uid) / "userns"
    stored = file.exists()

    bench.restart_agent()
    await bench.sync(make_pod("b", host_users=False))
    await bench.terminate(pod)
    await bench.syncer.sync_terminated(pod, bench.runtime.pod(pod.uid))
    await bench.syncer.remove_pod(pod, bench.runtime.pod(pod.uid))
    await bench.sync(make_pod("c", host_users=False))

    starts = [config.security.namespaces.user.uids[0].host_id // 65536 for config in bench.sandboxes()]
    assert (stored, file.exists(), starts) == (True, False, [1, 2, 1])


async def test_runtime_class_selects_the_handler(make_bench):
    api = FakeApi()
    api.put(RUNTIME_CLASSES, {"metadata": {"name": "fast"}, "handler": "crun"})
    bench = make_bench(context={"api": api})

    await bench.sync(make_pod("a", runtime_class_name="fast"))
    unknown = await bench.sync(make_pod("b", runtime_class_name="none"))

    assert bench.runtime.called("run_sandbox")[0].arguments[1] == "crun"
    assert str(unknown.error) == 'RuntimeClass "none" not found'
    assert len(bench.runtime.called("run_sandbox")) == 1


async def test_ephemeral_container_joins_its_target(bench):
    await bench.sync(make_pod())
    debug = {"name": "debug", "image": "i", "targetContainerName": "main"}

    await bench.sync(make_pod(ephemeral_containers=[debug]))

    namespaces = bench.made()[-1].security.namespaces
    assert (namespaces.pid, namespaces.target_id) == (NamespaceMode.TARGET, bench.id_of(make_pod(), "main"))


async def test_ephemeral_container_with_unsupported_field_waits(bench):
    await bench.sync(make_pod())
    debug = {"name": "debug", "image": "i", "lifecycle": {"stopSignal": "SIGUSR1"}}

    outcome = await bench.sync(make_pod(ephemeral_containers=[debug]))

    assert outcome.waiting["debug"].reason == "CreateContainerConfigError"
    assert 'spec.ephemeralContainers{debug}.lifecycle.stopSignal: "SIGUSR1"' in outcome.waiting["debug"].message
    assert [config.name for config in bench.made()] == ["main"]


async def test_interrupted_start_is_repeated_with_the_same_attempt(bench):
    pod = make_pod(restart_policy="Never")
    await bench.sync(pod)
    observed = bench.runtime.pod(pod.uid)
    bench.runtime.exit(observed.containers[0].id, 128)
    broken = replace(
        observed.containers[0],
        state=ContainerState.EXITED,
        started_at=0,
        exit_code=128,
        message="failed to start: context canceled: unknown",
    )

    outcome = await bench.syncer.sync_pod(pod, pod.status, replace(observed, containers=[broken]))

    assert outcome.error is None
    assert [config.attempt for config in bench.made()] == [0, 0]
    assert bench.runtime.running() == ["web/main"]


async def test_container_of_an_interrupted_start_does_not_block_the_next(bench, clock):
    pod = make_pod(restart_policy="Never")
    await bench.sync(pod)
    observed = bench.runtime.pod(pod.uid)
    stuck = observed.containers[0]
    bench.runtime.exit(stuck.id, 128)
    broken = replace(
        stuck, state=ContainerState.EXITED, started_at=0, exit_code=128, message="failed: context canceled: unknown"
    )
    observed = replace(observed, containers=[broken])
    rejection = RuntimeFailure("cannot delete running task")
    log = bench.log_root / "pods" / "default_web_uid-web" / "main" / "0.log"
    log.touch()

    bench.runtime.fail("remove_container", rejection)
    first = await bench.syncer.sync_pod(pod, pod.status, observed)
    assert first.error is rejection
    assert not log.exists(), "a log without a container would count as a run"
    assert [config.attempt for config in bench.made()] == [0]

    await clock.advance(5)
    bench.runtime.fail("remove_container", rejection)
    second = await bench.syncer.sync_pod(pod, pod.status, observed)
    assert second.error is None
    assert [config.attempt for config in bench.made()] == [0, 1]
    assert bench.runtime.running() == ["web/main"]


async def test_failed_plugin_prevents_the_container_creation(bench):
    def reject(_settings):
        raise PluginError("gpu", "no device")

    bench.hooks.changes["nodeagent_mutate_container"] = reject

    outcome = await bench.sync(make_pod())

    assert outcome.waiting["main"].reason == "PreCreateHookError"
    assert "create_container" not in bench.calls


async def test_failed_cgroup_creation_is_reported(bench):
    bench.context.cgroups.fail("ensure_pod", NodeAgentError("no space"))

    outcome = await bench.sync(make_pod())

    assert outcome.error is not None
    assert "FailedCreatePodContainer" in bench.reasons()
    assert bench.calls == []


async def test_failed_directory_creation_is_reported(bench):
    bench.context.root_dir.mkdir(exist_ok=True)
    (bench.context.root_dir / "pods").write_text("in the way")

    outcome = await bench.sync(make_pod())

    assert "error making pod data directories" in str(outcome.error)
    assert "Failed" in bench.reasons()


async def test_failed_stop_is_reported(bench):
    pod = make_pod()
    await bench.sync(pod)
    bench.runtime.fail("stop_container", RuntimeFailure("stuck"))

    outcome = await bench.terminate(pod)

    assert str(outcome.error) == "stuck"
    assert bench.notes("FailedKillPod") == ["error killing pod: stuck"]


async def test_failed_stop_retains_the_sandbox_for_the_grace_period(bench, clock):
    pod = make_pod()
    await bench.sync(pod)
    bench.runtime.fail("stop_container", RuntimeFailure("stuck"), times=None)

    await bench.terminate(pod, 10)
    await clock.advance(9)
    await bench.terminate(pod, 10)
    assert "stop_sandbox" not in bench.calls, "it would kill the container"

    await clock.advance(1)
    await bench.terminate(pod, 10)
    assert "stop_sandbox" in bench.calls


async def test_unreachable_runtime_does_not_use_up_the_grace_period(bench, clock):
    pod = make_pod()
    await bench.sync(pod)
    bench.runtime.fail("stop_container", RuntimeUnavailable("down"), times=None)

    await bench.terminate(pod, 10)
    await clock.advance(60)
    await bench.terminate(pod, 10)

    assert "stop_sandbox" not in bench.calls


@pytest.mark.parametrize(("error", "retained"), [(RuntimeUnavailable, True), (RuntimeTimeout, False)])
async def test_long_attempt_counts_if_it_reached_the_runtime(bench, clock, error, retained):
    pod = make_pod()
    await bench.sync(pod)

    async def stop_container(container_id, seconds):
        await clock.sleep(20)
        raise error("no response")

    bench.runtime.stop_container = stop_container

    job = asyncio.create_task(bench.terminate(pod, 10))
    await clock.advance(20)
    await job

    assert ("stop_sandbox" not in bench.calls) == retained


async def test_removed_pod_needs_one_call_per_sandbox(bench):
    pod = make_pod(containers=["a", "b"])
    await bench.sync(pod)
    await bench.terminate(pod)
    await bench.syncer.sync_terminated(pod, bench.runtime.pod(pod.uid))
    before = len(bench.calls)

    await bench.syncer.remove_pod(pod, bench.runtime.pod(pod.uid))

    assert bench.calls[before:] == ["remove_sandbox"]


async def test_exited_sandbox_is_stopped_to_release_its_network(bench):
    pod = make_pod()
    await bench.sync(pod)
    bench.runtime.kill_sandbox(bench.runtime.pod(pod.uid).sandboxes[0].id)

    await bench.syncer.remove_pod(pod, bench.runtime.pod(pod.uid))

    assert bench.calls[-2:] == ["stop_sandbox", "remove_sandbox"]


@pytest.mark.row("gate.PodHostIPs")
@pytest.mark.parametrize(("on", "value"), [(True, "192.0.2.5"), (False, "")])
async def test_host_addresses_are_variables_unless_their_gate_is_disabled(make_bench, on, value):
    bench = make_bench(context={"node": NODE}, feature_gates={"PodHostIPs": on})
    env = [{"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}]

    await bench.sync(make_pod(containers=[make_container("main", env=env)]))

    assert ("IPS", value) in bench.made()[0].envs


@pytest.mark.row("gate.ProcMountType")
@pytest.mark.parametrize("on", [True, False])
async def test_proc_is_unmasked_only_with_the_gate(make_bench, on):
    bench = make_bench(feature_gates={"ProcMountType": on})

    await bench.sync(make_pod(containers=[make_container("main", security_context={"procMount": "Unmasked"})]))

    assert bool(bench.made()[0].security.masked_paths) is not on


async def test_configured_maximum_shortens_the_crash_loop_backoff(bench, clock):
    config = CrashLoopBackOffConfig(max_container_restart_period=Duration.parse("2s"))
    bench.context.config = make_config(crash_loop_back_off=config)
    bench.context.gates = build_gates({"NodeAgentCrashLoopBackOffMax": True}, NEWEST)
    pod = make_pod()
    await bench.sync(pod)

    bench.runtime.exit(bench.runtime.pod(pod.uid).containers[0].id, 1)
    await bench.sync(pod)
    bench.runtime.exit(bench.runtime.pod(pod.uid).containers[0].id, 1)
    delayed = await bench.sync(pod)
    await clock.advance(2)
    await bench.sync(pod)

    assert delayed.retry_seconds == 2
    assert [config.attempt for config in bench.made()] == [0, 1, 2]


def _with_stop_signal(name):
    return make_pod(containers=[make_container("main", lifecycle={"stopSignal": name})])


async def test_stop_signal_is_requested_with_its_gate(make_bench):
    bench = make_bench(context={"gates": build_gates({"ContainerStopSignals": True}, NEWEST)})

    await bench.sync(_with_stop_signal("SIGUSR1"))

    assert bench.made()[-1].stop_signal == "SIGUSR1"


async def test_runtime_that_ignores_the_stop_signal_fails_the_container(make_bench):
    bench = make_bench(context={"gates": build_gates({"ContainerStopSignals": True}, NEWEST)})
    status = bench.runtime.container_status

    async def without_signal(container_id):
        return replace(await status(container_id), stop_signal="")

    bench.runtime.container_status = without_signal

    outcome = await bench.sync(_with_stop_signal("SIGUSR1"))

    assert outcome.waiting["main"].reason == "RunContainerError"
    assert 'stopSignal "SIGUSR1" is not supported by the container runtime' in outcome.waiting["main"].message
    assert not bench.runtime.called("start_container")


async def test_restarted_container_keeps_the_user_of_its_image(bench):
    bench.context.images.add("registry.test/app:1", uid=1000)
    pod = make_pod("web", containers=["main"])

    for _ in range(2):
        await bench.sync(pod)
        bench.runtime.exit(bench.id_of(pod, "main"))

    assert [made.security.run_as_user for made in bench.made()] == [1000, 1000]


async def test_annotations_of_a_pod_do_not_reach_the_runtime_of_its_containers(bench):
    names = ("run.oci.keep_original_groups", "org.systemd.property.DeviceAllow", "io.kubernetes.cri-o.userns-mode")
    await bench.sync(make_pod("web", annotations=dict.fromkeys(names, "1")))

    assert not set(names) & set(bench.made()[-1].annotations)


@pytest.mark.parametrize(
    ("namespace", "links", "expected"),
    [
        ("default", True, {"KUBERNETES_SERVICE_HOST", "SHOP_SERVICE_HOST"}),
        ("default", False, {"KUBERNETES_SERVICE_HOST"}),
        ("team", True, {"KUBERNETES_SERVICE_HOST", "OTHER_SERVICE_HOST"}),
    ],
)
async def test_service_variables_are_those_of_the_namespace(make_bench, namespace, links, expected):
    bench = make_bench(context={"api": FakeApi()})
    shop = {**OTHER, "metadata": {"name": "shop", "namespace": "default"}}
    bench.context.objects.service_list = [KUBERNETES, OTHER, shop]

    await bench.sync(make_pod(namespace=namespace, enable_service_links=links))

    assert env_names(bench) == expected


async def test_ephemeral_container_waits_for_a_running_target(bench):
    pod = make_pod(
        containers=["main"],
        restart_policy="Never",
        ephemeral_containers=[{"name": "debug", "image": "i", "targetContainerName": "gone"}],
    )

    outcome = await bench.sync(pod)

    assert outcome.waiting["debug"].message == "target container 'gone' is not running"


async def test_addresses_that_are_unspecified_are_not_those_of_the_node(make_bench):
    bench = make_bench()
    bench.context.settings = replace(bench.context.settings, node_ips=("0.0.0.0", "192.0.2.7"))
    env = [{"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]

    await bench.sync(make_pod(containers=[make_container("main", env=env)]))

    assert dict(bench.made()[0].envs)["HOST"] == "192.0.2.7"


@pytest.mark.parametrize("lifecycle", [None, {"preStop": {"exec": {"command": ["bye"]}}}])
async def test_no_stop_signal_is_requested_by_default(make_bench, lifecycle):
    bench = make_bench(context={"gates": build_gates({"ContainerStopSignals": True}, NEWEST)})

    await bench.sync(make_pod(containers=[make_container("main", lifecycle=lifecycle)]))

    assert bench.made()[-1].stop_signal == ""


async def test_stop_signal_is_not_requested_without_its_gate(make_bench):
    bench = make_bench(context={"gates": build_gates({"ContainerStopSignals": False}, NEWEST)})

    await bench.sync(_with_stop_signal("SIGUSR1"))

    assert bench.made()[-1].stop_signal == ""


async def test_annotations_record_how_messages_and_grace_periods_are_read(bench):
    container = make_container(
        "main", termination_message_path="/own", termination_message_policy="FallbackToLogsOnError"
    )
    await bench.sync(make_pod(containers=[container], metadata={"deletion_grace_period_seconds": 7}))
    await bench.sync(make_pod("plain", containers=["main"]))

    own, plain = (made.annotations for made in bench.made())
    assert (own[ANNOTATION_MESSAGE_PATH], own[ANNOTATION_MESSAGE_POLICY]) == ("/own", "FallbackToLogsOnError")
    assert own[ANNOTATION_DELETION_GRACE] == "7"
    assert (plain[ANNOTATION_MESSAGE_PATH], plain[ANNOTATION_MESSAGE_POLICY]) == ("/dev/termination-log", "File")
    assert ANNOTATION_DELETION_GRACE not in plain
