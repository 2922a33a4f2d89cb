"""Tests for log rotation."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import ContainerState
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import FakePodDirectory, FakeRuntime, load_plugin, make_config, make_context, make_pod
from nodeagent_plugins import log_rotation


class LoggingRuntime(FakeRuntime):
    """Creates a new, empty log when it is reopened, as runtimes do."""

    async def reopen_log(self, container_id):
        await super().reopen_log(container_id)
        Path((await self.container_status(container_id)).log_path).touch()


class ObservedPods(FakePodDirectory):
    """Observes the runtime, and counts how often."""

    def __init__(self, runtime):
        super().__init__()
        self.runtime, self.listed = runtime, 0

    def all(self):
        self.listed += 1
        return super().all()

    def observed(self, uid):
        return self.runtime.pod(uid)


@pytest.fixture
def runtime(clock):
    runtime = LoggingRuntime(clock)
    runtime.pods = ObservedPods(runtime)
    return runtime


def loops_of(tmp_path, clock, runtime, **fields):
    config = make_config(**{"container_log_max_size": "100", "container_log_max_files": 4, **fields})
    context = make_context(tmp_path, clock=clock, config=config, runtime=runtime, pods=runtime.pods)
    (result,) = load_plugin(log_rotation).provide_all(
        "nodeagent_provide_background_loops", context=context, plugins=None
    )
    return {loop.name: loop for loop in result.value}


@asynccontextmanager
async def rotating(tmp_path, clock, runtime, **fields):
    task = asyncio.create_task(loops_of(tmp_path, clock, runtime, **fields)["log_rotation"].run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def start(runtime, tmp_path, name="web"):
    log = tmp_path / "logs" / name / "0.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    return runtime.start(name, runtime.pods.add(make_pod(name, containers=[name])), log_path=str(log)), log


def files(log):
    return {path.name: path for path in log.parent.iterdir()}


@pytest.mark.row("config.containerLogMaxSize")
async def test_only_logs_of_the_maximum_size_are_rotated(tmp_path, clock, runtime):
    big, big_log = start(runtime, tmp_path, "big")
    _, small_log = start(runtime, tmp_path, "small")
    big_log.write_text("x" * 100)
    small_log.write_text("x" * 99)

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    rotated = "0.log.20240102-150405"
    assert files(big_log).keys() == {"0.log", rotated}
    assert files(big_log)[rotated].read_text() == "x" * 100
    assert files(small_log).keys() == {"0.log"}
    assert [call.arguments[0] for call in runtime.called("reopen_log")] == [big]


async def test_sizes_are_checked_every_ten_seconds_without_a_runtime_call(tmp_path, clock, runtime):
    start(runtime, tmp_path)

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(59)

    assert (runtime.pods.listed, runtime.calls) == (6, [])


@pytest.mark.row("config.containerLogMaxFiles")
async def test_all_but_the_last_two_files_are_compressed(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)

    async with rotating(tmp_path, clock, runtime):
        for round in range(6):
            log.write_text(f"{round}" * 100)
            await clock.advance(10)

    assert sorted(files(log)) == [
        "0.log",
        "0.log.20240102-150445.gz",
        "0.log.20240102-150455.gz",
        "0.log.20240102-150505",
    ]
    assert gzip.decompress(files(log)["0.log.20240102-150445.gz"].read_bytes()) == b"3" * 100
    assert files(log)["0.log.20240102-150505"].read_text() == "5" * 100


@pytest.mark.row("config.containerLogMaxFiles")
async def test_two_files_keep_only_the_last_rotated_one(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)

    async with rotating(tmp_path, clock, runtime, container_log_max_files=2):
        for _ in range(3):
            log.write_text("x" * 100)
            await clock.advance(10)

    assert sorted(files(log)) == ["0.log", "0.log.20240102-150435"]


@pytest.mark.row("config.containerLogMaxSize")
@pytest.mark.parametrize(("size", "rotated"), [("-1", False), ("0", True)])
async def test_negative_size_disables_the_rotation(tmp_path, clock, runtime, size, rotated):
    assert ("log_rotation" in loops_of(tmp_path, clock, runtime, container_log_max_size=size)) is rotated


async def test_compressed_log_has_the_mode_of_the_original(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)
    old = log.with_name("0.log.20230101-000000")
    old.write_text("old")
    old.chmod(0o640)
    log.write_text("x" * 100)

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    assert files(log)["0.log.20230101-000000.gz"].stat().st_mode & 0o777 == 0o640


async def test_unfinished_files_of_a_killed_agent_are_removed(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)
    log.write_text("x" * 100)
    for name in ("0.log.20230101-000000.tmp", "0.log.20230101-000000", "0.log.20230101-000000.gz"):
        log.with_name(name).write_bytes(b"kept" if name.endswith("gz") else b"")

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    assert files(log).keys() == {"0.log", "0.log.20230101-000000.gz", "0.log.20240102-150405"}
    assert files(log)["0.log.20230101-000000.gz"].read_bytes() == b"kept"


async def test_failed_reopen_restores_the_log(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)
    log.write_text("x" * 100)
    runtime.fail("reopen_log", RuntimeFailure("no"))

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)
        assert {name: path.read_text() for name, path in files(log).items()} == {"0.log": "x" * 100}
        await clock.advance(10)

    assert files(log).keys() == {"0.log", "0.log.20240102-150415"}


async def test_cancelled_reopen_restores_the_log(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)
    log.write_text("x" * 100)
    runtime.hang("reopen_log")

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)
        assert files(log).keys() == {"0.log.20240102-150405"}

    assert {name: path.read_text() for name, path in files(log).items()} == {"0.log": "x" * 100}


async def test_missing_log_is_reopened(tmp_path, clock, runtime):
    _, log = start(runtime, tmp_path)
    log.unlink()

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    assert files(log).keys() == {"0.log"}


async def test_link_instead_of_a_log_is_not_rotated(tmp_path, clock, runtime, caplog):
    other = tmp_path / "other"
    other.write_text("x" * 200)
    _, log = start(runtime, tmp_path)
    log.unlink()
    log.symlink_to(other)

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(21)

    assert files(log).keys() == {"0.log"}
    assert other.read_text() == "x" * 200
    assert [record.message for record in caplog.records] == ["Failed to rotate log for container"]


async def test_link_among_rotated_logs_is_not_compressed(tmp_path, clock, runtime):
    other = tmp_path / "other"
    other.write_text("secret")
    _, log = start(runtime, tmp_path)
    log.write_text("x" * 100)
    log.with_name("0.log.20230101-000000").symlink_to(other)

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    assert files(log).keys() == {"0.log", "0.log.20230101-000000", "0.log.20240102-150405"}


async def test_failed_rotation_does_not_affect_the_others(tmp_path, clock, runtime):
    logs = [start(runtime, tmp_path, name)[1] for name in ("first", "second")]
    for log in logs:
        log.write_text("x" * 100)
    runtime.fail("reopen_log", RuntimeFailure("no"))

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    assert sorted(len(files(log)) for log in logs) == [1, 2]


async def test_logs_of_exited_containers_are_not_rotated(tmp_path, clock, runtime):
    ended, log = start(runtime, tmp_path)
    log.write_text("x" * 100)
    runtime.exit(ended)

    async with rotating(tmp_path, clock, runtime):
        await clock.advance(1)

    assert files(log).keys() == {"0.log"}
    assert not runtime.called("reopen_log")
    assert (await runtime.container_status(ended)).state is ContainerState.EXITED


async def test_interval_of_the_size_checks_is_configured(tmp_path, clock, runtime):
    start(runtime, tmp_path)

    async with rotating(tmp_path, clock, runtime, container_log_monitor_interval=Duration.parse("30s")):
        await clock.advance(59)

    assert runtime.pods.listed == 2


@pytest.mark.parametrize(("workers", "parallel"), [(1, 1), (2, 2), (9, 3)])
async def test_logs_are_rotated_by_the_configured_workers(tmp_path, clock, runtime, workers, parallel):
    for name in ("a", "b", "c"):
        start(runtime, tmp_path, name)[1].write_text("x" * 100)
    reopening, most, reopen = 0, 0, runtime.reopen_log

    async def slow(container_id):
        nonlocal reopening, most
        reopening += 1
        most = max(most, reopening)
        await clock.sleep(1)
        reopening -= 1
        await reopen(container_id)

    runtime.reopen_log = slow
    async with rotating(tmp_path, clock, runtime, container_log_max_workers=workers):
        await clock.advance(5)

    assert most == parallel
    assert len(runtime.called("reopen_log")) == 3
