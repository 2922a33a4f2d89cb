"""Tests for pods on the embedded runtime, with an installed OCI runtime and with the built-in one."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import pytest

from nodeagent.contracts.runtime import (
    ContainerSecurity,
    ContainerState,
    DnsConfig,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    PortMapping,
    ProfileType,
    RuntimeEventType,
    SandboxSecurity,
    SecurityProfile,
)
from nodeagent.errors import RuntimeFailure
from nodeagent_plugins.cri.client import CriRuntime
from tests.integration.cri.conftest import exited, until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


def texts(log: str) -> list[str]:
    """Return the output of a container, without time and tags."""
    return [line.split(" ", 3)[3] for line in log.splitlines()]


async def output(cri: CriRuntime, pods, sandbox_id: str, script: str, **settings: object) -> list[str]:
    """Run *script* in a container to its end, and return its output."""
    await exited(cri, await pods.container(sandbox_id, script, **settings))
    return texts(pods.log(sandbox_id))


async def test_sandbox_has_an_address(cri, pods, daemon):
    status = await cri.sandbox_status(await pods.sandbox(annotations={"note": "x"}))

    assert status.ready
    assert status.network_mode is NamespaceMode.POD
    assert ipaddress.ip_address(status.ips[0]) in ipaddress.ip_network(daemon.subnet)
    assert status.annotations == {"note": "x"}


async def test_pod_with_the_address_of_an_earlier_pod_is_reachable(cri, pods):
    await pods.sandbox("other")  # The bridge keeps its link, and the host keeps the cached addresses.
    addresses = []
    for _ in range(2):
        sandbox_id = await pods.sandbox()
        (address,) = (await cri.sandbox_status(sandbox_id)).ips
        addresses.append(address)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.wait_for(asyncio.open_connection(address, 80), 10)
        await cri.stop_sandbox(sandbox_id)
        await cri.remove_sandbox(sandbox_id)

    assert addresses[0] == addresses[1]


async def test_container_has_a_log_and_an_exit_code(cri, pods):
    sandbox_id = await pods.sandbox()
    script = "echo $GREETING; echo bad >&2; printf end; exit 3"
    container_id = await pods.container(sandbox_id, script, envs=(("GREETING", "hello"),))

    status = await exited(cri, container_id)

    assert (status.exit_code, status.reason) == (3, "Error")
    lines = sorted(line.split(" ", 1)[1] for line in pods.log(sandbox_id).splitlines())
    assert lines == ["stderr F bad", "stdout F end", "stdout F hello"]


async def test_long_line_is_split(cri, pods):
    sandbox_id = await pods.sandbox()

    await exited(cri, await pods.container(sandbox_id, "head -c 40000 /dev/zero | tr '\\0' x; echo"))

    lines = [line.split(" ", 3) for line in pods.log(sandbox_id).splitlines()]
    assert [tag for _, _, tag, _ in lines] == ["P", "P", "F"]
    assert sum(len(text) for *_, text in lines) == 40000


async def test_stopped_container_has_a_grace_period(cri, pods):
    sandbox_id = await pods.sandbox()
    polite = await pods.container(sandbox_id, "trap 'exit 7' TERM; sleep 1000 & wait")
    stubborn = await pods.container(sandbox_id, "trap '' TERM; while :; do sleep 1; done", attempt=1)
    await asyncio.sleep(0.2)  # Until both shells have set their traps.

    await asyncio.gather(cri.stop_container(polite, 20), cri.stop_container(stubborn, 1))

    assert (await cri.container_status(polite)).exit_code == 7
    assert (await cri.container_status(stubborn)).exit_code == 137


async def test_container_is_stopped_with_its_own_signal(cri, pods):
    script = "trap 'exit 9' USR1; trap 'exit 7' TERM; echo ready; sleep 1000 & wait"
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, script, stop_signal="SIGUSR1")
    other = await pods.container(sandbox_id, script, attempt=1)
    await asyncio.sleep(0.2)  # Until both shells have set their traps.

    reported = [(await cri.container_status(each)).stop_signal for each in (container_id, other)]
    await asyncio.gather(cri.stop_container(container_id, 20), cri.stop_container(other, 20))

    assert reported == ["SIGUSR1", "SIGTERM"]
    assert [(await cri.container_status(each)).exit_code for each in (container_id, other)] == [9, 7]


async def test_exec_runs_a_command(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")

    result = await cri.exec_sync(container_id, ["sh", "-c", "echo out; echo err >&2; exit 5"], 10)

    assert (result.exit_code, result.stdout, result.stderr) == (5, b"out\n", b"err\n")


async def test_exec_over_its_timeout_is_killed(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")

    with pytest.raises(TimeoutError):
        await cri.exec_sync(container_id, ["sleep", "61"], 1)

    assert b"sleep 61" not in (await cri.exec_sync(container_id, ["ps"], 10)).stdout


async def test_exec_of_a_missing_command_fails(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")

    with pytest.raises(RuntimeFailure, match="no-such-command"):
        await cri.exec_sync(container_id, ["no-such-command"], 10)


async def test_container_has_its_configured_settings(cri, pods, tmp_path):
    sandbox_id = await pods.sandbox(sysctls={"net.ipv4.ip_unprivileged_port_start": "0"}, hostname="web-host")
    (tmp_path / "data").mkdir()
    script = (
        "id -u; id -G; hostname; touch /data/made; touch /x 2>&- || echo read-only; pwd; grep CapEff /proc/1/status;"
        "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
    )

    lines = await output(
        cri,
        pods,
        sandbox_id,
        script,
        working_dir="/tmp",
        mounts=(Mount("/data", str(tmp_path / "data")),),
        resources=LinuxResources(cpu_shares=512, memory_limit_bytes=64 << 20, oom_score_adj=-900),
        security=ContainerSecurity(
            run_as_user=0, run_as_group=0, supplemental_groups=(2000,), readonly_rootfs=True, capabilities_drop=("ALL",)
        ),
    )

    assert lines[0] == "0"
    assert "2000" in lines[1].split()
    assert lines[2:5] == ["web-host", "read-only", "/tmp"]
    assert lines[5].split()[1] == "0" * 16
    assert lines[6] == "0"
    assert (tmp_path / "data" / "made").exists()


async def test_capabilities_are_the_default_and_added_ones(cri, pods):
    sandbox_id = await pods.sandbox()
    more = ContainerSecurity(capabilities_add=("NET_ADMIN",), capabilities_drop=("CHOWN",))

    for attempt, security in enumerate((ContainerSecurity(), more)):
        container_id = await pods.container(
            sandbox_id, "grep CapEff /proc/1/status", attempt=attempt, log_path=f"{attempt}.log", security=security
        )
        await exited(cri, container_id)

    before, after = (int(texts(pods.log(sandbox_id, name))[0].split()[1], 16) for name in ("0.log", "1.log"))
    assert before == 0xA80425FB
    assert after == before & ~1 | 1 << 12


async def test_non_root_user_has_no_capabilities_and_cannot_gain_any(cri, pods):
    lines = await output(
        cri,
        pods,
        await pods.sandbox(),
        "id -u; id -g; grep -E 'CapEff|NoNewPrivs' /proc/1/status",
        security=ContainerSecurity(run_as_user=1234, run_as_group=2345, no_new_privs=True),
    )

    assert lines[:2] == ["1234", "2345"]
    assert [line.split()[1] for line in lines[2:]] == ["0" * 16, "1"]


async def test_privileged_container_has_the_runtimes_capabilities(cri, pods):
    sandbox_id = await pods.sandbox(security=SandboxSecurity(privileged=True))
    script = "mount -t tmpfs none /mnt 2>&1 || mkdir -p /mnt && mount -t tmpfs none /mnt && echo mounted; ls /dev"

    lines = await output(cri, pods, sandbox_id, script, security=ContainerSecurity(privileged=True))

    assert "mounted" in lines
    assert "kmsg" in lines


async def test_masked_and_read_only_paths_are_protected(cri, pods):
    lines = await output(
        cri,
        pods,
        await pods.sandbox(),
        "wc -c < /proc/timer_list; (echo 1 > /proc/sys/kernel/domainname) 2>&- || echo read-only",
        security=ContainerSecurity(masked_paths=("/proc/timer_list",), readonly_paths=("/proc/sys",)),
    )

    assert lines == ["0", "read-only"]


async def test_containers_of_a_pod_share_network_ipc_and_shared_memory(cri, pods):
    sandbox_id = await pods.sandbox()
    first = await pods.container(sandbox_id, "echo shared > /dev/shm/note; sleep 1000")
    other = await pods.container(sandbox_id, "sleep 1000", attempt=1)
    looked = "for n in net ipc uts pid mnt; do readlink /proc/1/ns/$n; done"

    async def is_written() -> bool:
        return (await cri.exec_sync(other, ["cat", "/dev/shm/note"], 10)).stdout == b"shared\n"

    await until(is_written)
    ours, theirs = [(await cri.exec_sync(c, ["sh", "-c", looked], 10)).stdout.split() for c in (first, other)]
    assert ours[:3] == theirs[:3]
    assert ours[3] != theirs[3]
    assert ours[4] != theirs[4]


async def test_containers_may_share_a_pid_namespace(cri, pods):
    shared = Namespaces(pid=NamespaceMode.POD)
    sandbox_id = await pods.sandbox(security=SandboxSecurity(namespaces=shared))
    first = await pods.container(sandbox_id, "sleep 1234", security=ContainerSecurity(namespaces=shared))
    other = await pods.container(sandbox_id, "sleep 1000", attempt=1, security=ContainerSecurity(namespaces=shared))

    seen = (await cri.exec_sync(other, ["ps"], 10)).stdout

    assert b"sleep 1234" in seen
    await cri.stop_container(first, 0)
    assert (await cri.container_status(first)).exit_code == 137
    assert b"sleep 1234" not in (await cri.exec_sync(other, ["ps"], 10)).stdout


async def test_pod_with_host_namespaces_sees_the_host(cri, pods):
    node = Namespaces(network=NamespaceMode.NODE, pid=NamespaceMode.NODE, ipc=NamespaceMode.NODE)
    sandbox_id = await pods.sandbox(security=SandboxSecurity(namespaces=node))
    assert (await cri.sandbox_status(sandbox_id)).ips == ()

    lines = await output(
        cri, pods, sandbox_id, "hostname; ps | grep -c python", security=ContainerSecurity(namespaces=node)
    )

    assert lines[0] == socket.gethostname()
    assert int(lines[1]) > 0


async def test_mounts_can_be_read_only_and_propagate(cri, pods, tmp_path):
    (tmp_path / "ro").mkdir()
    sandbox_id = await pods.sandbox()

    lines = await output(
        cri, pods, sandbox_id, "touch /ro/x 2>&- || echo refused", mounts=(Mount("/ro", str(tmp_path / "ro"), True),)
    )

    assert lines == ["refused"]
    with pytest.raises(RuntimeFailure, match="is not on a shared mount"):
        await pods.container(
            sandbox_id,
            "true",
            attempt=1,
            mounts=(Mount("/both", str(tmp_path), propagation=MountPropagation.BIDIRECTIONAL),),
        )


async def test_dns_configuration_of_the_pod_is_used(cri, pods):
    dns = DnsConfig(servers=("10.9.8.7",), searches=("a.example", "b.example"), options=("ndots:5",))

    lines = await output(cri, pods, await pods.sandbox(dns=dns), "cat /etc/resolv.conf")

    assert lines == ["search a.example b.example", "nameserver 10.9.8.7", "options ndots:5"]


async def test_failed_start_has_a_reason(cri, pods):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "", command=("/no/such",), start=False)

    with pytest.raises(RuntimeFailure, match="/no/such"):
        await cri.start_container(container_id)

    status = await cri.container_status(container_id)
    assert (status.state, status.exit_code, status.reason) == (ContainerState.EXITED, 128, "StartError")


async def test_resources_of_a_running_container_can_be_updated(cri, pods):
    container_id = await pods.container(
        await pods.sandbox(), "sleep 1000", resources=LinuxResources(memory_limit_bytes=64 << 20)
    )

    await cri.update_resources(container_id, LinuxResources(memory_limit_bytes=32 << 20))

    script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>&-"
    limit = await cri.exec_sync(container_id, ["sh", "-c", script], 10)
    assert int(limit.stdout) == 32 << 20


async def test_container_over_its_memory_limit_is_oom_killed(cri, pods):
    limit = LinuxResources(memory_limit_bytes=16 << 20, memory_swap_limit_bytes=16 << 20)
    script = "tail -c 100000000 /dev/zero"

    status = await exited(cri, await pods.container(await pods.sandbox(), f"exec {script}", resources=limit))

    assert (status.exit_code, status.reason) == (137, "OOMKilled")


async def test_rotated_log_is_reopened(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "while :; do echo tick; sleep 0.05; done")
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


async def test_changes_are_notified(cri, pods):
    notified = 0

    async def count() -> None:
        nonlocal notified
        async for _ in cri.changes():
            notified += 1

    counting = asyncio.create_task(count())
    try:
        await asyncio.sleep(0.2)  # Until the stream is established.
        container_id = await pods.container(await pods.sandbox(), "exit 0")
        await exited(cri, container_id)
        await until(lambda: asyncio.sleep(0, notified >= 3))  # The sandbox starts, the container starts and ends.
    finally:
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)


async def test_events_are_streamed(cri, pods):
    seen: list[tuple[RuntimeEventType, str]] = []
    watched = asyncio.Event()

    async def follow() -> None:
        async for event in cri.events():
            assert event.pod_uid == "uid-web"
            seen.append((event.type, event.container_id))
            watched.set()

    following = asyncio.create_task(follow())
    try:
        await asyncio.sleep(0.2)  # Until the stream is established.
        sandbox_id = await pods.sandbox()
        container_id = await pods.container(sandbox_id, "exit 0")
        await exited(cri, container_id)
        await cri.remove_container(container_id)
        kinds = (RuntimeEventType.CREATED, RuntimeEventType.STARTED, RuntimeEventType.STOPPED, RuntimeEventType.DELETED)
        await until(lambda: asyncio.sleep(0, seen[-1:] == [(kinds[-1], container_id)]))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    assert seen[:2] == [(kinds[0], sandbox_id), (kinds[1], sandbox_id)]
    assert seen[2:] == [(kind, container_id) for kind in kinds]


async def test_host_port_reaches_the_pod(cri, pods):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sandbox_id = await pods.sandbox(port_mappings=(PortMapping(8080, port),))
    await pods.container(sandbox_id, "while :; do echo hello | nc -l -p 8080; done")

    async def is_reachable() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        line = await reader.readline()
        writer.close()
        return line == b"hello\n"

    await until(is_reachable)


async def test_default_seccomp_profile_requires_an_oci_runtime(cri, pods, daemon):
    sandbox_id = await pods.sandbox()
    profile = ContainerSecurity(seccomp=SecurityProfile(ProfileType.RUNTIME_DEFAULT))
    if "own" in daemon.options:
        with pytest.raises(RuntimeFailure, match="require crun or runc"):
            await pods.container(sandbox_id, "true", security=profile)
        return

    lines = await output(cri, pods, sandbox_id, "grep Seccomp: /proc/1/status", security=profile)

    assert lines[0].split()[1] == "2"


async def test_unsupported_settings_are_rejected(cri, pods):
    sandbox_id = await pods.sandbox()

    for settings, failure in (
        ({"sysctls": {"kernel.panic": "1"}}, "kernel.panic does not belong to a namespace"),
        ({"cgroup_parent": "/kubepods.slice"}, "the runtime uses cgroupfs"),
    ):
        with pytest.raises(RuntimeFailure, match=failure):
            await pods.sandbox("other", **settings)
    with pytest.raises(RuntimeFailure, match='no user "does-not-exist"'):
        await pods.container(sandbox_id, "true", security=ContainerSecurity(run_as_username="does-not-exist"))
    with pytest.raises(RuntimeFailure, match="unknown capability FLY"):
        await pods.container(sandbox_id, "true", security=ContainerSecurity(capabilities_add=("FLY",)))
    assert await cri.list_containers() == ()


async def test_exec_ends_when_its_call_is_cancelled(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")
    executing = asyncio.create_task(cri.exec_sync(container_id, ["sleep", "654"], 0))

    async def runs() -> bool:
        return b"sleep 654" in (await cri.exec_sync(container_id, ["ps"], 10)).stdout

    await until(runs)
    executing.cancel()
    await asyncio.gather(executing, return_exceptions=True)

    async def is_gone() -> bool:
        return not await runs()

    await until(is_gone)
