"""Tests for stop signals of the embedded runtime."""

from __future__ import annotations

import signal

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.stop_signals import cri_signal, signal_number, stop_signal_of


@pytest.mark.parametrize(
    ("requested", "image", "expected"),
    [
        (cri.SIGUSR1, "SIGQUIT", "SIGUSR1"),
        (cri.SIGRTMINPLUS3, "", "SIGRTMIN+3"),
        (cri.SIGRTMAXMINUS2, "", "SIGRTMAX-2"),
        (cri.RUNTIME_DEFAULT, "SIGQUIT", "SIGQUIT"),
        (cri.RUNTIME_DEFAULT, "", "SIGTERM"),
    ],
)
def test_requested_signal_takes_precedence(requested: cri.Signal, image: str, expected: str) -> None:
    assert stop_signal_of(cri.ContainerConfig(stop_signal=requested), image) == expected


@pytest.mark.parametrize(
    ("name", "number", "reported"),
    [
        ("SIGUSR1", signal.SIGUSR1, cri.SIGUSR1),
        ("term", signal.SIGTERM, cri.SIGTERM),
        ("3", signal.SIGQUIT, cri.SIGQUIT),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3, cri.SIGRTMINPLUS3),
        ("SIGRTMAX-2", signal.SIGRTMAX - 2, cri.SIGRTMAXMINUS2),
        ("SIGRTMIN", signal.SIGRTMIN, cri.SIGRTMIN),
        ("SIGRTMIN+99", signal.SIGTERM, cri.RUNTIME_DEFAULT),
        ("nonsense", signal.SIGTERM, cri.RUNTIME_DEFAULT),
        ("SIGCLD", signal.SIGCHLD, cri.SIGCLD),
    ],
)
def test_signal_is_sent_and_reported(name: str, number: int, reported: cri.Signal) -> None:
    assert signal_number(name) == number
    assert cri_signal(name) == reported


def test_every_signal_of_cri_can_be_sent() -> None:
    names = [stop_signal_of(cri.ContainerConfig(stop_signal=value), "") for value in cri.Signal.values() if value]

    wrong = [name for name in names if name != "SIGTERM" and signal_number(name) == signal.SIGTERM]

    assert wrong in ([], ["SIGSTKFLT"])  # Absent in Python on some architectures.
