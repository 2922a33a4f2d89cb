"""Tests for restarts of the embedded runtime: containers, logs and exit codes survive."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import ContainerState
from nodeagent.errors import RuntimeUnavailable
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.embedded_runtime.passable_root import alias_of
from nodeagent_plugins.embedded_runtime.rootfs import mount_points
from tests.integration.embedded_runtime.conftest import is_running
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.embedded_runtime.test_pods import exited, texts, until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


async def restart(daemon: EmbeddedRuntime, cri: CriRuntime, number: signal.Signals) -> None:
    """Restart the runtime and wait until the client is connected."""
    await asyncio.to_thread(daemon.stop, number)
    with pytest.raises(RuntimeUnavailable):
        await cri.version()
    await asyncio.to_thread(daemon.start)

    await until(lambda: reachable(cri))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_containers_and_logs_survive_a_restart(cri, pods, daemon, number):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done")
    before = await cri.container_status(container_id)

    await restart(daemon, cri, number)

    status = await cri.container_status(container_id)
    assert (status.state, status.started_at) == (ContainerState.RUNNING, before.started_at)
    assert (await cri.exec_sync(container_id, ["echo", "there"], 10)).stdout == b"there\n"
    await cri.stop_container(container_id, 0)
    numbers = [int(text) for text in texts(pods.log(sandbox_id))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert (await cri.container_status(container_id)).exit_code == 137


async def test_exit_during_a_restart_is_recorded(cri, pods, daemon, tmp_path):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "while [ ! -e /dev/shm/go ]; do sleep 0.05; done; echo bye; exit 9")
    shm = daemon.root / "sandboxes" / sandbox_id / "shm"
    await asyncio.to_thread(daemon.stop, signal.SIGKILL)
    (shm / "go").touch()
    exit_file = daemon.root / "containers" / container_id / "exit.json"
    await until(lambda: asyncio.to_thread(exit_file.exists))
    await asyncio.to_thread(daemon.start)
    await until(lambda: reachable(cri))

    status = await exited(cri, container_id)

    assert (status.exit_code, status.reason) == (9, "Error")
    assert texts(pods.log(sandbox_id)) == ["bye"]


async def test_addresses_stay_unique_after_a_restart(cri, pods, daemon):
    first = await pods.sandbox("first")

    await restart(daemon, cri, signal.SIGTERM)
    second = await pods.sandbox("second")

    assert (await cri.sandbox_status(first)).ips != (await cri.sandbox_status(second)).ips


async def test_container_with_a_killed_shim_is_stopped(cri, pods, daemon):
    sandbox_id = await pods.sandbox()
    container_id = await pods.container(sandbox_id, "sleep 1000")
    record = (daemon.root / "containers" / container_id / "record.json").read_text()
    shim = int(record.partition('"shim"')[2].partition('"pid":')[2].partition(",")[0])

    os.kill(shim, signal.SIGKILL)

    status = await exited(cri, container_id)
    assert (status.exit_code, status.reason) == (255, "Unknown")


async def test_sandbox_with_a_killed_pause_process_is_not_ready(cri, pods, daemon):
    sandbox_id = await pods.sandbox()
    record = (daemon.root / "sandboxes" / sandbox_id / "record.json").read_text()
    holder = int(record.partition('"holder"')[2].partition('"pid":')[2].partition(",")[0])

    os.kill(holder, signal.SIGKILL)

    async def is_seen() -> bool:
        return not (await cri.sandbox_status(sandbox_id)).ready

    await until(is_seen)


async def test_removal_leaves_no_files(cri, pods, daemon):
    sandbox_id = await pods.sandbox()
    await pods.container(sandbox_id, "sleep 1000")
    await cri.stop_sandbox(sandbox_id)
    await cri.remove_sandbox(sandbox_id)

    assert [path.name for kind in ("sandboxes", "containers") for path in (daemon.root / kind).iterdir()] == []
    assert str(daemon.root) not in Path("/proc/self/mounts").read_text()


async def reachable(cri: CriRuntime) -> bool:
    try:
        return bool(await cri.version())
    except RuntimeUnavailable:
        return False


def test_path_for_user_namespaces_is_mounted_once_and_removed() -> None:
    runtime = EmbeddedRuntime()
    alias = alias_of(runtime.root)
    runtime.directory.chmod(0o700)
    try:
        runtime.start()
        runtime.stop(signal.SIGKILL)
        runtime.start()
        mounted = mount_points(alias)
        shared = alias.samefile(runtime.root)
        runtime.stop()
        assert (mounted, shared, alias.exists()) == ([str(alias)], True, False)
    finally:
        runtime.close()


def fork_server_of(daemon: EmbeddedRuntime) -> int:
    """Return the process ID of the server that forks the helpers of *daemon*."""
    assert daemon.process is not None
    tasks = Path(f"/proc/{daemon.process.pid}/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text().split()]
    (server,) = [int(pid) for pid in children if b"fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return server


async def test_containers_survive_the_server_that_forks_their_shims(cri, pods, daemon):
    sandbox_id = await pods.sandbox()
    first = await pods.container(sandbox_id, "while [ ! -e /dev/shm/go ]; do sleep 0.05; done; echo bye; exit 9")
    killed = fork_server_of(daemon)
    os.kill(killed, signal.SIGKILL)
    second = await pods.container(sandbox_id, "echo there; exit 3", attempt=1, log_path="second.log")

    assert (await exited(cri, second)).exit_code == 3
    assert fork_server_of(daemon) != killed
    (daemon.root / "sandboxes" / sandbox_id / "shm/go").touch()
    assert (await exited(cri, first)).exit_code == 9
    assert texts(pods.log(sandbox_id)) == ["bye"]


async def test_server_that_forks_helpers_exits_with_the_runtime(cri, pods, daemon):
    await pods.sandbox()
    server = fork_server_of(daemon)

    await restart(daemon, cri, signal.SIGKILL)

    await until(lambda: asyncio.to_thread(lambda: not is_running(server)))
