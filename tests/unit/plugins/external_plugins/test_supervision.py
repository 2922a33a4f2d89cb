"""Tests for the loop that keeps a plugin connected, and for the directory of its socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from nodeagent.base.aio import Backoff
from nodeagent.errors import PluginDisconnected
from nodeagent.testing import FakeClock
from nodeagent_plugins.external_plugins import process
from nodeagent_plugins.external_plugins.process import (
    Cgroup,
    Executable,
    Owner,
    Process,
    StartError,
    owner_of,
    prepare_directory,
)
from nodeagent_plugins.external_plugins.session import NegotiationError, Session
from nodeagent_plugins.external_plugins.settings import ExternalPlugin
from nodeagent_plugins.external_plugins.supervision import Supervisor, supervise_socket


class Attempts:
    """Results of the attempts to connect; the last one never ends."""

    def __init__(self, clock: FakeClock, *results: str | Exception) -> None:
        self._clock, self._results, self.at = clock, list(results), []

    async def __call__(self) -> str:
        self.at.append(self._clock.now())
        if not self._results:
            await asyncio.Event().wait()
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def test_failed_plugin_is_started_again_with_a_back_off(
    session: Session, clock: FakeClock, failures: list[str]
) -> None:
    attempts = Attempts(clock, "exited with code 1", StartError("no user"), NegotiationError("has the name 'x'"))
    loop = Supervisor(session, attempts, Backoff(1, 60, jitter=0), clock)

    task = asyncio.create_task(loop.run())
    for _ in range(20):
        await clock.advance(0.5)

    start = attempts.at[0]
    assert [at - start for at in attempts.at] == pytest.approx([0, 1, 3, 7], abs=0.5)
    assert failures == ["exited with code 1", "no user", "has the name 'x'"]
    assert session.is_starting
    task.cancel()
    await asyncio.wait([task])


async def test_repeated_failure_is_logged_once(
    session: Session, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(clock, "exited with code 1", "exited with code 1", "exited with code 2")
    task = asyncio.create_task(Supervisor(session, attempts, Backoff(1, 1, jitter=0), clock).run())
    for _ in range(20):
        await clock.advance(0.5)

    reasons = [vars(record)["err"] for record in caplog.records if record.message == "Out-of-process plugin failed"]
    assert reasons == ["exited with code 1", "exited with code 2"]
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(("seconds", "delay"), [(59.0, 8.0), (60.0, 1.0)])
async def test_back_off_is_reset_after_a_stable_connection(
    session: Session, clock: FakeClock, seconds: float, delay: float
) -> None:
    starts: list[float] = []
    ends: list[float] = []

    async def run_once() -> str:
        starts.append(clock.now())
        if len(starts) == 4:
            await clock.sleep(seconds)
        ends.append(clock.now())
        return "the connection was lost"

    task = asyncio.create_task(Supervisor(session, run_once, Backoff(1, 60, jitter=0), clock).run())
    while len(starts) < 5:
        await clock.advance(0.5)

    assert (ends[3] - starts[3], starts[4] - ends[3]) == pytest.approx((seconds, delay))
    task.cancel()
    await asyncio.wait([task])


async def test_calls_fail_with_the_reason_during_the_back_off(session: Session, clock: FakeClock) -> None:
    loop = Supervisor(session, Attempts(clock, "exited with code 1"), Backoff(10, 60), clock)
    task = asyncio.create_task(loop.run())
    await clock.advance(1)

    with pytest.raises(PluginDisconnected, match="exited with code 1"):
        await session.call("nodeagent_admit_pod", None, None, 5)  # type: ignore[arg-type]
    task.cancel()
    await asyncio.wait([task])


async def test_missing_socket_is_the_reason(clock: FakeClock, tmp_path: Path, failures: list[str]) -> None:
    settings = ExternalPlugin(name="shelf", capabilities=frozenset({"admission"}), socket=str(tmp_path / "s"))
    session = Session(settings, "node-1", clock, on_failure=failures.append)
    task = asyncio.create_task(supervise_socket(session, clock).run())
    for _ in range(5000):
        await asyncio.sleep(0.002)  # The socket is inspected in a thread.
        if failures:
            break
    task.cancel()
    await asyncio.wait([task])

    assert failures == [f"{tmp_path}/s is not a socket, or does not exist"]


def test_directory_is_private_and_its_parents_can_be_traversed(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        prepare_directory(tmp_path / "a" / "b" / "shelf", None)
    finally:
        os.umask(mask)
    (tmp_path / "a" / "b" / "shelf" / "plugin.sock").touch()

    prepare_directory(tmp_path / "a" / "b" / "shelf", None)

    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a/b/shelf")]
    assert modes == [0o755, 0o755, 0o700]
    assert list((tmp_path / "a" / "b" / "shelf").iterdir()) == []


def test_unknown_user_is_reported() -> None:
    plugin = ExternalPlugin(name="shelf", capabilities=frozenset(), command=("/a",), user="nobody-has-this-name")

    with pytest.raises(StartError, match="user 'nobody-has-this-name' does not exist"):
        owner_of(plugin, ())


@pytest.mark.parametrize(
    ("user", "group", "owner"),
    [
        ("root", None, Owner(0, 0)),
        (0, 7, Owner(0, 7)),
        (0, "root", Owner(0, 0)),
        (4_000_000, None, Owner(4_000_000, 4_000_000)),
    ],
)
def test_group_is_that_of_the_user_by_default(user: str | int, group: str | int | None, owner: Owner) -> None:
    plugin = ExternalPlugin(name="shelf", capabilities=frozenset(), command=("/a",), user=user, group=group)

    assert owner_of(plugin, ()) == owner


def test_unknown_group_is_reported() -> None:
    plugin = ExternalPlugin(name="shelf", capabilities=frozenset(), command=("/a",), user=0, group="no-such-group")

    with pytest.raises(StartError, match="group 'no-such-group' does not exist"):
        owner_of(plugin, ())


class Popen:
    """A process that was not started."""

    pid = 123456

    def __init__(self, code: int | None) -> None:
        self.returncode, self.signals = code, list[int]()

    def wait(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-9, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
    ],
)
async def test_end_of_a_process_is_described(code: int, text: str) -> None:
    assert Process(Popen(code)).result() == text  # type: ignore[arg-type]


@pytest.mark.parametrize(("exited", "signals", "kills"), [(False, [signal.SIGTERM], [123456]), (True, [], [])])
async def test_process_is_terminated_before_it_is_killed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, exited: bool, signals: list[int], kills: list[int]
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(process.os, "killpg", lambda pid, number: killed.append(pid))
    popen = Popen(0 if exited else None)
    running = Process(popen)  # type: ignore[arg-type]
    if exited:
        running.exited.set()

    stop = asyncio.create_task(running.stop(clock))
    await clock.settle()
    assert (popen.signals, killed) == (signals, [])
    for _ in range(30):
        await clock.advance(1)
    await stop

    assert killed == kills


class Cgroups:
    """Cgroups of processes, as a list of calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def ensure_processes(self, name: str, limits: object) -> list[Path]:
        self.calls.append(f"ensure {name}")
        return [Path("/cgroup.procs")]

    async def remove_processes(self, name: str) -> None:
        self.calls.append(f"remove {name}")


@pytest.mark.parametrize(
    ("owner", "limited", "directory"),
    [(Owner(os.getuid(), os.getgid()), True, ""), (None, False, ""), (None, False, "/srv")],
)
async def test_executable_is_started_with_its_user_cgroup_and_directory(
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    owner: Owner | None,
    limited: bool,
    directory: str,
) -> None:
    started: list[dict[str, object]] = []

    def fail(command: list[str], **_: object) -> None:
        started.append(json.loads(command[-1]))
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(process.subprocess, "Popen", fail)
    plugin = ExternalPlugin(
        name="shelf", capabilities=frozenset(), command=("/bin/shelf", "-v"), working_directory=directory
    )
    cgroups = Cgroups()
    cgroup = Cgroup(cgroups, "shelf_1") if limited else None
    executable = Executable(plugin, tmp_path / "shelf", owner, cgroup, clock)

    with pytest.raises(StartError, match="failed to start /bin/shelf: No such file or directory"):
        async with executable.running():
            pass

    assert executable.last_line == ""
    assert cgroups.calls == (["remove shelf_1", "ensure shelf_1", "remove shelf_1"] if limited else [])
    assert started == [
        {
            "parent": os.getpid(),
            "cgroups": ["/cgroup.procs"] if limited else [],
            "uid": owner.uid if owner is not None else None,
            "gid": owner.gid if owner is not None else None,
            "directory": directory or str(tmp_path / "shelf"),
            "command": ["/bin/shelf", "-v"],
        }
    ]
