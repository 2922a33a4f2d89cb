"""Tests for signals to processes that are not children."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodeagent_plugins.embedded_runtime import processes
from nodeagent_plugins.embedded_runtime.processes import Process


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for child in found:
        child.kill()
        child.communicate()


@pytest.fixture
def child(children: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    children.append(subprocess.Popen(["sleep", "60"]))
    return children[-1]


def process_of(child: subprocess.Popen[bytes]) -> Process:
    found = Process.of(child.pid)
    assert found is not None
    return found


@pytest.mark.parametrize(("grace", "expected"), [(60.0, signal.SIGTERM), (0.0, signal.SIGKILL)])
async def test_process_is_terminated_within_its_grace_period(
    child: subprocess.Popen[bytes], grace: float, expected: int
) -> None:
    await process_of(child).end(grace)

    assert child.wait() == -expected


async def test_process_that_ignores_the_signal_is_killed(children: list[subprocess.Popen[bytes]]) -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; echo; exec sleep 60"], stdout=subprocess.PIPE)
    children.append(child)
    assert child.stdout is not None
    child.stdout.readline()

    await process_of(child).end(0.01)

    assert child.wait() == -signal.SIGKILL


async def test_other_process_with_the_same_id_gets_no_signal(child: subprocess.Popen[bytes]) -> None:
    for other in (replace(process_of(child), started=1), replace(process_of(child), boot="another")):
        assert not other.alive
        assert not other.send(signal.SIGKILL)
        await other.end(60)
        await other.ended()

    assert child.poll() is None


async def test_process_that_has_exited_is_not_waited_for(child: subprocess.Popen[bytes]) -> None:
    process = process_of(child)
    child.kill()
    child.wait()

    await process.end(60)

    assert not process.alive and not process.send(signal.SIGTERM)
    assert Process.of(child.pid) is None


def test_zombie_is_not_alive(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    process = process_of(child)
    stat = "7 (name with ) parenthesis) {} " + " ".join(map(str, range(4, 60)))
    for state, started in (("S", 22), ("Z", None), ("X", None)):
        monkeypatch.setattr(processes.Path, "read_text", lambda _, state=state, **__: stat.format(state))
        found = Process.of(process.pid)
        assert (found.started if found is not None else None) == started
