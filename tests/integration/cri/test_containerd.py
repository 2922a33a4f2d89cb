"""Tests for the CRI client with containerd."""

from __future__ import annotations

import asyncio
import ipaddress

import msgspec
import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.base.duration import Duration
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.runtime import (
    ContainerSecurity,
    ContainerState,
    LinuxResources,
    Mount,
    NamespaceMode,
    Namespaces,
    PortMapping,
    SandboxSecurity,
)
from nodeagent.errors import NotFound, RuntimeFailure, RuntimeUnavailable
from nodeagent.testing.context import make_context
from nodeagent_plugins.cri import plugin
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection
from tests.integration.cdi_specs import NAME, SCRIPT, SEEN, write_spec
from tests.integration.cri.conftest import exited, until
from tests.integration.images import BUSYBOX_IMAGE, PAUSE_IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.row("card.cri")]


async def test_runtime_reports_version_and_readiness(cri):
    version = await cri.version()
    conditions = {condition.type: condition.status for condition in (await cri.status()).conditions}

    assert version.name == "containerd"
    assert version.api_version == "v1"
    assert conditions["RuntimeReady"] and conditions["NetworkReady"]


async def test_sandbox_has_an_address(cri, pods, containerd):
    sandbox_id = await pods.sandbox(annotations={"note": "x"}, port_mappings=(PortMapping(80, 0),))

    status = await cri.sandbox_status(sandbox_id)

    assert (status.name, status.uid, status.namespace, status.attempt) == ("web", "uid-web", "default", 0)
    assert status.ready
    assert status.network_mode is NamespaceMode.POD
    assert ipaddress.ip_address(status.ips[0]) in ipaddress.ip_network(containerd.subnet)
    assert status.annotations == {"note": "x"}


async def test_sandbox_with_host_network_has_no_address(cri, pods):
    node = SandboxSecurity(namespaces=Namespaces(network=NamespaceMode.NODE))

    status = await cri.sandbox_status(await pods.sandbox(security=node))

    assert status.network_mode is NamespaceMode.NODE
    assert status.ips == ()


async def test_container_has_a_log_and_an_exit_code(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "echo $GREETING; exit 3", envs=(("GREETING", "hello"),))

    status = await exited(cri, container_id)

    assert (status.exit_code, status.reason) == (3, "Error")
    assert 0 < status.created_at <= status.started_at
    assert status.finished_at > status.created_at
    assert pods.log(sandbox_id).endswith("stdout F hello\n")


async def test_stopped_container_has_a_grace_period(cri, pods):
    sandbox_id = await pods.sandbox()
    polite = await pods.container(sandbox_id, "trap 'exit 7' TERM; sleep 1000 & wait")
    stubborn = await pods.container(sandbox_id, "trap '' TERM; while :; do sleep 1; done", attempt=1)

    await asyncio.gather(cri.stop_container(polite, 20), cri.stop_container(stubborn, 1))

    assert (await cri.container_status(polite)).exit_code == 7
    assert (await cri.container_status(stubborn)).exit_code == 137


async def test_exec_runs_a_command(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")

    result = await cri.exec_sync(container_id, ["sh", "-c", "echo out; echo err >&2; exit 5"], 10)

    assert (result.exit_code, result.stdout, result.stderr) == (5, b"out\n", b"err\n")


async def test_exec_timeout_differs_from_an_unavailable_runtime(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")

    with pytest.raises(TimeoutError, match="run sleep in container"):
        await cri.exec_sync(container_id, ["sleep", "60"], 1)


async def test_security_context_is_passed_to_the_runtime(cri, pods, tmp_path):
    sandbox_id = await pods.sandbox(sysctls={"net.ipv4.ip_unprivileged_port_start": "0"}, hostname="web-host")
    (tmp_path / "data").mkdir()
    script = (
        "id -u; id -G; hostname; touch /data/made; touch /x 2>&- || echo read-only; pwd; grep CapEff /proc/1/status"
    )
    container_id = await pods.container(
        sandbox_id,
        script,
        working_dir="/tmp",
        mounts=(Mount("/data", str(tmp_path / "data")),),
        resources=LinuxResources(cpu_shares=512, memory_limit_bytes=64 << 20, oom_score_adj=999),
        security=ContainerSecurity(
            run_as_user=0, run_as_group=0, supplemental_groups=(2000,), readonly_rootfs=True, capabilities_drop=("ALL",)
        ),
    )

    await exited(cri, container_id)

    output = [line.split(" ", 3)[3] for line in pods.log(sandbox_id).splitlines()]
    assert output[0] == "0"
    assert "2000" in output[1].split()
    assert output[2:5] == ["web-host", "read-only", "/tmp"]
    assert output[5].split()[1] == "0" * 16
    assert (tmp_path / "data" / "made").exists()


async def test_unchanged_listing_is_the_same_object(cri, pods):
    sandbox_id = await pods.sandbox(labels={"io.kubernetes.pod.uid": "uid-web", "a": "1", "b": "2", "c": "3"})
    container_id = await pods.container(sandbox_id, "sleep 1000", annotations={"a": "1", "b": "2", "c": "3"})
    await pods.container(sandbox_id, "sleep 1000", attempt=1)
    sandboxes, containers = await cri.list_sandboxes(), await cri.list_containers()

    for _ in range(20):
        assert await cri.list_sandboxes() is sandboxes
        assert await cri.list_containers() is containers
    await cri.stop_container(container_id, 0)
    after = await cri.list_containers()

    assert {c.id: c.state for c in after}[container_id] is ContainerState.EXITED
    assert {s.id for s in sandboxes} == {sandbox_id}


async def test_listing_of_one_pod_excludes_other_pods(cri, pods):
    web, other = await pods.sandbox("web"), await pods.sandbox("other")
    container_id = await pods.container(web, "sleep 1000")

    assert [s.id for s in await cri.list_sandboxes("uid-other")] == [other]
    assert [c.id for c in await cri.list_containers("uid-web")] == [container_id]
    assert await cri.list_containers("uid-other") == ()


async def test_removal_is_complete_and_idempotent(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "sleep 1000")

    for _ in range(2):
        await cri.stop_container(container_id, 0)
        await cri.remove_container(container_id)
        await cri.stop_sandbox(sandbox_id)
        await cri.remove_sandbox(sandbox_id)

    assert await cri.list_sandboxes() == ()
    with pytest.raises(NotFound, match=f"get status of container {container_id}"):
        await cri.container_status(container_id)
    with pytest.raises(NotFound):
        await cri.sandbox_status(sandbox_id)


async def test_failed_start_has_a_reason(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "", command=("/no/such",), start=False)

    with pytest.raises(RuntimeFailure, match="/no/such"):
        await cri.start_container(container_id)


async def test_resources_of_a_running_container_can_be_updated(cri, pods):
    container_id = await pods.container(
        await pods.sandbox(), "sleep 1000", resources=LinuxResources(memory_limit_bytes=64 << 20)
    )

    await cri.update_resources(container_id, LinuxResources(memory_limit_bytes=32 << 20))

    limit = await cri.exec_sync(container_id, ["cat", "/sys/fs/cgroup/memory/memory.limit_in_bytes"], 10)
    assert int(limit.stdout) == 32 << 20


async def test_rotated_log_is_reopened(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "while :; do echo tick; sleep 0.05; done")
    log = pods.logs / "web" / "main.log"
    await until(lambda: asyncio.to_thread(log.exists))
    log.rename(log.with_suffix(".old"))

    await cri.reopen_log(container_id)

    await until(lambda: asyncio.to_thread(lambda: log.exists() and "tick" in log.read_text()))


async def test_stats_list_each_container(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "i=0; while :; do i=$((i+1)); done")

    async def is_counted() -> bool:
        return any(s.cpu_usage_core_nanoseconds > 0 for s in await cri.container_stats())

    await until(is_counted)
    (stats,) = await cri.container_stats()

    assert (stats.id, stats.name, stats.pod_uid) == (container_id, "main", "uid-web")
    assert stats.memory_working_set_bytes > 0
    assert stats.timestamp > 0


async def test_streaming_calls_return_urls(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "sleep 1000")

    urls = [
        await cri.exec_url(container_id, ["sh"], stdin=True, stdout=True, stderr=False, tty=True),
        await cri.attach_url(container_id, stdin=False, stdout=True, stderr=True, tty=False),
        await cri.port_forward_url(sandbox_id, [80]),
    ]

    kinds = [url.removeprefix("http://127.0.0.1:").split("/")[1] for url in urls]
    assert kinds == ["exec", "attach", "portforward"]


async def test_event_stream_is_supported_since_containerd_1_7(cri, pods):
    events = cri.events()
    if (await cri.version()).version.startswith("1.6"):
        with pytest.raises(NotImplementedError):
            await anext(events)
    else:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)  # The stream has no events from before its start.
        sandbox_id = await pods.sandbox()
        async with asyncio.timeout(20):
            found = await first
            while found.container_id != sandbox_id:  # Pods of earlier tests end as well.
                found = await anext(events)
    await events.aclose()


async def test_exit_of_a_container_is_notified_once_but_no_exec(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "sleep 1000")
    notified = 0

    async def count() -> None:
        nonlocal notified
        async for _ in cri.changes():
            notified += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0.5)  # The subscription has no events from before its start.
    before = notified  # Pods of earlier tests end as well.
    await cri.exec_sync(container_id, ["true"], 5)
    await asyncio.sleep(0.2)
    assert notified == before

    await cri.stop_container(container_id, 0)
    async with asyncio.timeout(20):
        while notified == before:
            await asyncio.sleep(0.05)
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)


async def test_cdi_devices_are_supported_since_containerd_1_7(cri, pods, containerd):
    write_spec(containerd.directory / "cdi", hook="createRuntime")
    sandbox_id = await pods.sandbox()
    if (await cri.version()).version.startswith("1.6"):
        with pytest.raises(RuntimeFailure, match=rf"CDI devices {NAME}: containerd 1\.6.* does not support CDI"):
            await pods.container(sandbox_id, SCRIPT, cdi_devices=(NAME,))
        return

    await exited(cri, await pods.container(sandbox_id, SCRIPT, cdi_devices=(NAME,)))

    assert [line.split(" ", 3)[3] for line in pods.log(sandbox_id).splitlines()] == SEEN
    with pytest.raises(RuntimeFailure, match=r"unresolvable CDI devices example\.com/sensor=right"):
        await pods.container(sandbox_id, SCRIPT, attempt=1, cdi_devices=("example.com/sensor=right",))


async def test_pod_cidr_is_accepted(cri):
    await cri.update_pod_cidr("10.1.0.0/24")


async def test_images_can_be_listed_inspected_and_removed(cri_images, containerd):
    containerd.ctr("images", "tag", BUSYBOX_IMAGE, "docker.io/library/extra:1")

    found = await cri_images.image_status("extra:1")
    names = {tag for image in await cri_images.list_images() for tag in image.repo_tags}

    assert found is not None
    assert found.size_bytes > 0
    assert any(digest.startswith("docker.io/library/busybox@sha256:") for digest in found.repo_digests)
    assert {BUSYBOX_IMAGE, PAUSE_IMAGE} <= names
    assert await cri_images.image_status("no/such:1") is None
    containerd.ctr("images", "remove", "docker.io/library/extra:1")
    (usage,) = await cri_images.filesystem_usage()
    assert usage.mountpoint.startswith(str(containerd.directory))


async def test_pull_error_has_a_cause(cri_images):
    with pytest.raises(RuntimeFailure, match=r'pull image "127\.0\.0\.1:1/none:1".*connection refused'):
        await cri_images.pull_image("127.0.0.1:1/none:1")


# --- endpoints ------------------------------------------------------------------------------------------------


@pytest.mark.row("config.containerRuntimeEndpoint", "config.imageServiceEndpoint")
async def test_configured_endpoints_are_used(containerd, tmp_path):
    config = NodeAgentConfiguration(
        container_runtime_endpoint=containerd.endpoint, image_service_endpoint=f"unix://{tmp_path}/none.sock"
    )
    context = make_context(tmp_path, config=config)
    context.runtime = plugin.nodeagent_provide_runtime(context)
    images = plugin.nodeagent_provide_image_service(context)

    assert (await context.runtime.version()).name == "containerd"
    with pytest.raises(RuntimeUnavailable):
        await images.list_images()
    context.config = msgspec.structs.replace(config, image_service_endpoint="")
    assert await plugin.nodeagent_provide_image_service(context).list_images() != ()
    await images.close()
    await context.runtime.close()


# --- outages --------------------------------------------------------------------------------------------------


async def test_missing_runtime_is_unavailable_immediately(tmp_path):
    runtime = CriRuntime(Connection(f"unix://{tmp_path}/none.sock", timeout_seconds=30), SystemClock())

    async with asyncio.timeout(10):
        with pytest.raises(RuntimeUnavailable, match="list sandboxes"):
            await runtime.list_sandboxes()
    await runtime.close()


@pytest.mark.row("config.runtimeRequestTimeout")
async def test_hung_runtime_is_unavailable_after_the_timeout(containerd, tmp_path):
    config = NodeAgentConfiguration(
        container_runtime_endpoint=containerd.endpoint, runtime_request_timeout=Duration.of(milliseconds=500)
    )
    runtime = plugin.nodeagent_provide_runtime(make_context(tmp_path, config=config))
    await runtime.version()
    containerd.freeze()
    try:
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeUnavailable):
                await runtime.version()
    finally:
        containerd.thaw()

    assert (await runtime.version()).name == "containerd"
    await runtime.close()


async def test_containers_and_client_survive_a_runtime_restart(containerd, cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    containerd.stop()
    with pytest.raises(RuntimeUnavailable):
        await cri.version()
    await asyncio.to_thread(containerd.start)

    async def is_back() -> bool:
        try:
            return bool(await cri.version())
        except RuntimeUnavailable:
            return False

    await until(is_back)

    assert (await cri.container_status(container_id)).state is ContainerState.RUNNING


async def test_containerd_reports_features_since_2(cri):
    status = await cri.status()

    if (await cri.version()).version.startswith("1."):
        assert (list(status.handlers), status.features, status.image_volumes) == ([], None, False)
    else:
        handlers = {handler.name: handler for handler in status.handlers}
        assert (handlers["runc"].recursive_read_only_mounts, handlers["runc"].user_namespaces) == (True, True)
        assert (status.features.supplemental_groups_policy, status.image_volumes) == (True, True)


async def test_pod_that_uses_the_nodes_user_namespace_runs(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "cat /proc/self/uid_map")
    await exited(cri, container_id)

    assert pods.log(sandbox_id).split()[3:] == ["0", "0", "4294967295"]
