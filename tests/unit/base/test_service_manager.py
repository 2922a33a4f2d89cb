"""Tests for the sd_notify client."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from nodeagent.base.service_manager import ServiceManager


class Recorded(ServiceManager):
    """Service manager that records the messages."""

    def __init__(self, environment: dict[str, str]) -> None:
        super().__init__(environment)
        self.sent: list[tuple[str, ...]] = []

    def _send(self, *messages: str) -> None:
        self.sent.append(messages)


def test_variables_are_removed_from_the_environment() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/notify",
        "WATCHDOG_USEC": "6000000",
        "WATCHDOG_PID": str(os.getpid()),
        "A": "",
    }

    manager = ServiceManager(environment)

    assert environment == {"A": ""}
    assert manager.present
    assert manager.watchdog_seconds == 6.0


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [({}, 0.0), ({"WATCHDOG_USEC": "soon"}, 0.0), ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, 0.0)],
)
def test_watchdog_of_another_process_is_ignored(environment: dict[str, str], seconds: float) -> None:
    assert ServiceManager(dict(environment)).watchdog_seconds == seconds


async def test_without_a_service_manager_calls_have_no_effect(clock) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": "vsock:2:1234"})

    assert not manager.present
    manager.ready("serves")
    await manager.run_watchdog(lambda: "", clock)


async def test_watchdog_pings_thrice_per_timeout_and_sends_changed_status(clock) -> None:
    manager = Recorded({"NOTIFY_SOCKET": "@notify", "WATCHDOG_USEC": "6000000"})
    states = ["1 pod", "1 pod", "2 pods"]
    manager.ready("1 pod")
    task = asyncio.create_task(manager.run_watchdog(lambda: states.pop(0), clock))
    for _ in range(2):
        await clock.advance(2.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert manager.sent == [
        ("READY=1", "STATUS=1 pod"),
        ("WATCHDOG=1",),
        ("WATCHDOG=1",),
        ("WATCHDOG=1", "STATUS=2 pods"),
    ]


def test_status_is_one_line() -> None:
    manager = Recorded({"NOTIFY_SOCKET": "@notify"})

    manager.ready("one\nREADY=0")
    manager.stopping()

    assert manager.sent == [("READY=1", "STATUS=one READY=0"), ("STOPPING=1", "STATUS=Stopping")]


@pytest.mark.parametrize("kind", ["abstract", "path"])
def test_messages_are_sent_to_the_socket(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "notify")
    if len(path) > 100:
        pytest.skip("path too long for a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("" if kind == "abstract" else path)
        name = server.getsockname()

        ServiceManager({"NOTIFY_SOCKET": f"@{name[1:].decode()}" if kind == "abstract" else path}).ready("1 pod")

        assert server.recv(100, socket.MSG_DONTWAIT) == b"READY=1\nSTATUS=1 pod"
