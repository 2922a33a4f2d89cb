"""Tests for pods of an unprivileged user, in a user namespace with host network."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.contracts.runtime import ContainerSecurity, ContainerState
from nodeagent.errors import RuntimeFailure
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection
from tests.integration.cri.conftest import Pods
from tests.integration.embedded_runtime.daemon import PLUGINS, START_SECONDS
from tests.integration.embedded_runtime.test_pods import exited, texts, until
from tests.integration.embedded_runtime.test_restart import reachable

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]

UNPRIVILEGED_UID = 65534
AS_UNPRIVILEGED = [
    "setpriv",
    "--reuid",
    str(UNPRIVILEGED_UID),
    "--regid",
    str(UNPRIVILEGED_UID),
    "--clear-groups",
    "--inh-caps=-all",
]


def python_of_all() -> str:
    """Return an interpreter of the same version that every user can run; the current one may be in a home directory."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = f"import sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
        words = [*AS_UNPRIVILEGED, "/bin/sh", "-c", f"{candidate} -c '{check}'"]
        if subprocess.run(words, check=False, capture_output=True).returncode == 0:
            return candidate
    raise RuntimeError("no Python of this version that an ordinary user may run")


class UserRuntime:
    """Runtime of an unprivileged user."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="embedded-"))
        os.chown(self.directory, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
        self.endpoint = f"unix://{self.directory}/cri.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [
            *AS_UNPRIVILEGED,
            python_of_all(),
            "-m",
            "nodeagent_plugins.embedded_runtime",
            "--listen",
            self.endpoint,
        ]
        path = os.pathsep.join([str(PLUGINS.parent), str(PLUGINS), sysconfig.get_path("purelib")])
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "--root", str(self.directory / "root")],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path, "HOME": "/"},
            )
        socket = self.directory / "cri.sock"
        socket.unlink(missing_ok=True)
        deadline = time.monotonic() + START_SECONDS
        while not socket.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "log").read_text())
            time.sleep(0.02)

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(20)

    def close(self) -> None:
        self.stop()
        keeper = self.directory / "root/keeper.json"
        if keeper.exists():
            os.kill(json.loads(keeper.read_text())["pid"], signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def user_runtime() -> Iterator[UserRuntime]:
    running = UserRuntime()
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
async def cri(user_runtime: UserRuntime) -> AsyncIterator[CriRuntime]:
    client = CriRuntime(Connection(user_runtime.endpoint, timeout_seconds=30), SystemClock())
    yield client
    await client.close()


@pytest.fixture
async def pods(cri: CriRuntime, user_runtime: UserRuntime) -> AsyncIterator[Pods]:
    pods = Pods(cri, user_runtime.directory / "logs")
    yield pods
    for sandbox in await cri.list_sandboxes():
        await cri.stop_sandbox(sandbox.id)
        await cri.remove_sandbox(sandbox.id)


@pytest.mark.parametrize("image", ["busybox:1.36", "nodeagent.local/host"])
async def test_pod_runs_as_root_of_its_user_namespace(cri, pods, image):
    sandbox_id = await pods.sandbox(hostname="web-host")
    script = "id -u; hostname; touch /made && echo written; cat /proc/self/uid_map; exit 6"

    status = await exited(cri, await pods.container(sandbox_id, script, image=image))

    assert status.exit_code == 6
    output = texts(pods.log(sandbox_id))
    assert output[:3] == ["0", "web-host", "written"]
    assert output[3].split() == ["0", str(UNPRIVILEGED_UID), "1"]


async def test_pod_has_a_pid_namespace_in_which_commands_run(cri, pods):
    container_id = await pods.container(await pods.sandbox(), "sleep 1000")

    result = await cri.exec_sync(container_id, ["sh", "-c", "ps | grep -c sleep; cat /proc/1/cmdline"], 10)

    assert result.stdout.replace(b"\0", b" ").endswith(b"sleep 1000 ")


async def test_user_without_a_number_is_rejected(cri, pods):
    with pytest.raises(RuntimeFailure, match="user 1000 is not mapped in this user namespace; mapped: 0"):
        await pods.container(await pods.sandbox(), "true", security=ContainerSecurity(run_as_user=1000))


async def test_pods_and_mounts_survive_a_runtime_restart(cri, pods, user_runtime):
    container_id = await pods.container(await pods.sandbox(), "echo kept > /note; sleep 1000")
    user_runtime.stop()
    user_runtime.start()
    await until(lambda: reachable(cri))

    assert (await cri.container_status(container_id)).state is ContainerState.RUNNING
    assert (await cri.exec_sync(container_id, ["cat", "/note"], 10)).stdout == b"kept\n"
