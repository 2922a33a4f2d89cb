"""Tests for log rotation at full speed: no line is lost, neither on disk nor for a follower."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.contracts.runtime import (
    LABEL_CONTAINER_NAME,
    LABEL_POD_UID,
    ContainerConfig,
    ContainerState,
    Mount,
    RuntimeContainerStatus,
    RuntimePod,
    SandboxConfig,
)
from nodeagent.testing import FakePodDirectory, load_plugin, make_config, make_context, make_pod
from nodeagent_plugins import log_rotation
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.log_rotation.files import Sorted, rotated_names, sort_rotated
from nodeagent_plugins.routes_logs.follow import read_file
from nodeagent_plugins.routes_logs.lines import LineReader
from nodeagent_plugins.routes_logs.rotated import RotatedLogs
from nodeagent_plugins.routes_logs.watch import Watches
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.images import BUSYBOX_IMAGE
from tests.integration.programs import NodeAgent, simple_pod, wait_until

AT_ONCE = 60_000
"""Number of lines, about 60 MB, that are written at full speed: a number and 990 more characters each. More
lines follow at 1 MB/s until the test stops them, so that files and waits do not depend on the speed of the host."""
SCRIPT = f"""awk 'BEGIN {{
  for (i = 1; i % 1000 || (getline line < "/control/enough") < 0; i++) {{
    if (i > {AT_ONCE} && i % 1000 == 1) system("sleep 1")
    printf "%09d {"x" * 990}\\n", i
  }}
  printf "end %d\\n", i - 1
}}'
exec sleep 1000"""
LAST = re.compile(rb"^end ([0-9]+)\n\Z", re.MULTILINE)


class Stamping(SystemClock):
    """Clock that advances the wall time by one second per call, so that each rotated file has a different time."""

    def __init__(self) -> None:
        self._calls = 0

    def wall(self) -> datetime:
        self._calls += 1
        return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=self._calls)


@pytest.fixture(params=["containerd", "embedded"])
async def runtime(request):
    embedded = None
    if request.param == "containerd":
        endpoint = request.getfixturevalue("containerd").endpoint
    else:
        embedded = EmbeddedRuntime()
        embedded.start()
        endpoint = embedded.endpoint
    client = CriRuntime(Connection(endpoint, timeout_seconds=30), SystemClock())
    try:
        yield client
    finally:
        await client.close()
        if embedded is not None:
            embedded.close()


async def start(runtime: CriRuntime, logs: Path, control: Path) -> tuple[str, RuntimeContainerStatus]:
    labels = {LABEL_POD_UID: "uid-writer", LABEL_CONTAINER_NAME: "main"}
    sandbox = SandboxConfig("writer", "uid-writer", "default", labels=labels, log_directory=str(logs))
    sandbox_id = await runtime.run_sandbox(sandbox)
    (logs / "main").mkdir(parents=True, exist_ok=True)
    control.mkdir()
    config = ContainerConfig(
        "main",
        0,
        BUSYBOX_IMAGE,
        command=("sh", "-c", SCRIPT),
        mounts=(Mount("/control", str(control), readonly=True),),
        labels=labels,
        log_path="main/0.log",
    )
    container_id = await runtime.create_container(sandbox_id, config, sandbox)
    await runtime.start_container(container_id)
    return sandbox_id, await runtime.container_status(container_id)


class DirectRuntime:
    """Runtime with one container that writes the log directly, at the speed of the disk."""

    def __init__(self, log: Path, control: Path) -> None:
        self._log, self._control = log, control
        self._reopen, self._reopened, self._gone = threading.Event(), threading.Event(), threading.Event()

    def status(self) -> RuntimeContainerStatus:
        return RuntimeContainerStatus(
            "direct", "main", 0, ContainerState.RUNNING, 0, 0, 0, 0, "image", "image", log_path=str(self._log)
        )

    async def reopen_log(self, container_id: str) -> None:
        self._reopened.clear()
        self._reopen.set()
        assert await asyncio.to_thread(self._reopened.wait, 60)

    def run(self) -> None:
        """Write; blocks until ``stop`` is called after the last line."""
        file, line = self._open(), 0
        while not (self._control / "enough").exists():
            lines = range(line + 1, line + 1001)
            if line >= AT_ONCE:
                time.sleep(1)
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z stdout F ")
            self._write(file, "".join(f"{stamp}{number:09d} {'x' * 990}\n" for number in lines))
            line = lines[-1]
            if self._reopen.is_set():
                file = self._next(file)
        self._write(file, f"{stamp}end {line}\n")
        while not self._gone.is_set():
            if self._reopen.wait(0.05):
                file = self._next(file)
        os.close(file)

    def stop(self) -> None:
        self._gone.set()

    def _open(self) -> int:
        return os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def _next(self, file: int) -> int:
        self._reopen.clear()
        fresh = self._open()
        os.close(file)
        self._reopened.set()
        return fresh

    def _write(self, file: int, text: str) -> None:
        data = memoryview(text.encode())
        while data:
            data = data[os.write(file, data) :]


@pytest.mark.row("config.containerLogMaxSize")
async def test_no_line_is_lost_on_disk_or_for_a_follower(runtime, tmp_path):
    control = tmp_path / "control"
    sandbox_id, container = await start(runtime, tmp_path / "logs", control)
    try:
        await rotate_and_follow(runtime, container, control, tmp_path, period_seconds=0.2)
    finally:
        await runtime.stop_sandbox(sandbox_id)
        await runtime.remove_sandbox(sandbox_id)


@pytest.mark.row("config.containerLogMaxSize")
async def test_no_line_is_lost_at_the_speed_of_the_disk(tmp_path):
    log, control = tmp_path / "logs" / "0.log", tmp_path / "control"
    log.parent.mkdir()
    control.mkdir()
    runtime = DirectRuntime(log, control)
    writing = asyncio.create_task(asyncio.to_thread(runtime.run))
    try:
        await until(log.exists)
        await rotate_and_follow(runtime, runtime.status(), control, tmp_path, period_seconds=0.02)
    finally:
        (control / "enough").touch()
        runtime.stop()
        await writing


async def rotate_and_follow(
    runtime: Any, container: RuntimeContainerStatus, control: Path, tmp_path: Path, period_seconds: float
) -> None:
    """Rotate and follow a log until enough was rotated; assert that all lines are on disk and were followed."""
    log = Path(container.log_path)
    pod = make_pod("writer")
    pods = FakePodDirectory()
    pods.add(pod, observed=RuntimePod(pod.uid, pod.name, pod.namespace, (), (container,), observed_at=0))
    context = make_context(
        tmp_path,
        runtime=runtime,
        pods=pods,
        config=make_config(container_log_max_size="2Mi", container_log_max_files=1000),
        plugin_settings={"log_rotation": {"period_seconds": period_seconds}},
    )
    context.clock = Stamping()
    (hook_call,) = load_plugin(log_rotation).provide_all(
        "nodeagent_provide_background_loops", context=context, plugins=None
    )
    rotator = next(loop for loop in hook_call.value if loop.name == "log_rotation")
    started = asyncio.Event()
    following = asyncio.create_task(follow(log, started))
    tasks = [following]
    try:
        async with asyncio.timeout(120):
            await started.wait()
            tasks.append(asyncio.create_task(rotator.run()))
            await until(lambda: len(rotated_of(log).kept) >= 3 and list(log.parent.glob("*.gz")))
            (control / "enough").touch()
            followed = await following
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    await until(lambda: not rotated_of(log).useless)  # A compression in progress completes in its thread.
    on_disk = text_of([*(log.parent / name for name in rotated_of(log).kept), log])
    assert (numbers(on_disk), numbers(followed)) == (written(on_disk),) * 2


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.05)


def rotated_of(log: Path) -> Sorted:
    return sort_rotated(rotated_names(log), keep=1000)


async def follow(log: Path, started: asyncio.Event) -> bytes:
    """Follow the log from its start to the last line of the writer."""
    runs = True

    def open_name(name: str) -> int:
        return os.open(log.parent / name, os.O_RDONLY | os.O_CLOEXEC)

    pieces = read_file(
        lambda: open_name("0.log"),
        str(log.parent),
        Watches(),
        SystemClock(),
        more_expected=lambda: runs,
        rotated=RotatedLogs(open_name, "0.log"),
    )
    reader, text = LineReader(), bytearray()
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            started.set()
            text += reader.feed(piece)
            if LAST.search(text, max(0, len(text) - 100)):
                runs = False
    return bytes(text)


def text_of(files: list[Path]) -> bytes:
    """Return the combined output of the container in *files*."""
    reader = LineReader()
    read = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in files)
    return b"".join(reader.feed(content) for content in read)


def numbers(text: bytes) -> list[int]:
    """Return the numbers of all lines but the last one."""
    return [int(line[:9]) for line in text.splitlines()[:-1]]


def written(text: bytes) -> list[int]:
    """Return the numbers of all written lines according to the last line of the writer."""
    last = LAST.search(text)
    assert last is not None
    return list(range(1, int(last[1]) + 1))


def test_agent_rotates_the_logs_of_its_pods(containerd, tmp_path):
    agent = NodeAgent(tmp_path, containerd.endpoint)
    agent.plugins = {"log_rotation": {"period_seconds": 1}}
    agent.write_pod(simple_pod("writer", "while :; do seq 1 3000; sleep 0.2; done"))
    try:
        agent.start(containerLogMaxSize="16Ki", containerLogMaxFiles=3)
        wait_until(lambda: list(agent.logs.glob("pods/*/main/0.log.*.gz")), "a log is rotated and compressed")
        wait_until(lambda: len(list(agent.logs.glob("pods/*/main/0.log*"))) == 3, "three files are kept")
    finally:
        agent.stop()
        containerd.remove_pods()
