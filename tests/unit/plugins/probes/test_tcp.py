"""Tests for connections of probes."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from nodeagent_plugins.probes import tcp
from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("10.0.0.9", "10.0.0.9", True),
        ("10.0.0.9", "10.0.0.1", True),
        ("10.0.7.9", "10.0.0.1", False),
        ("fd00::9", "fd00::1", True),
        ("2001:db8::9", "fd00::1", False),
        ("fd00::9", "10.0.0.1", False),
    ],
)
def test_neighbors_differ_in_their_last_group(one: str, other: str, near: bool) -> None:
    assert tcp.neighbors(one, other) is near


@pytest.mark.parametrize(
    ("error", "output"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "dial tcp 10.0.0.1:80: connect: connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "dial tcp: lookup 10.0.0.1: no such host"),
        (UnicodeError("label too long"), "dial tcp: lookup 10.0.0.1: no such host"),
        (TimeoutError(), "dial tcp 10.0.0.1:80: i/o timeout"),
    ],
)
async def test_failed_connection_has_the_reason(monkeypatch: pytest.MonkeyPatch, error: Exception, output: str) -> None:
    async def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(tcp, "open_connection", fail)

    assert await tcp.probe_tcp("10.0.0.1", 80, 1) == Outcome(OutcomeKind.FAILURE, output)


@pytest.mark.parametrize(
    ("error", "output"),
    [
        (OSError("no route"), "dial tcp h:80: connect: no route"),
        (OSError(0, "odd"), "dial tcp h:80: connect: [Errno 0] odd"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "read tcp h:80: connection reset by peer"),
        (BrokenPipeError(errno.EPIPE, "x"), "read tcp h:80: broken pipe"),
    ],
)
def test_reason_of_an_error_without_number_is_its_text(error: OSError, output: str) -> None:
    assert tcp.dial_error(error, "h:80") == output
