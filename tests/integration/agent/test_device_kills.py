"""Short run of tests.device_kills: processes are killed while devices are allocated."""

from __future__ import annotations

import pytest

from tests.device_kills.runner import Runner
from tests.device_kills.sources import ClaimDriver
from tests.integration.containerd import LATER, Containerd


@pytest.mark.timeout(400)
def test_kills_neither_share_nor_lose_devices(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("d")  # The path of a socket is limited to 107 characters.
    with Runner(directory, containerd, seed=3).running() as runner:
        report = runner.run(5, kill_every=4.0)
        log = runner.agent.tail(60) if report.violations else ""

    assert report.violations == [], log
    assert report.allocations >= 5
    assert report.kills


@pytest.mark.timeout(400)
def test_kills_lose_no_claims(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("c")
    with Containerd(executables=LATER) as runtime, Runner(directory, runtime, 3, ClaimDriver).running() as runner:
        report = runner.run(4, kill_every=4.0)
        log = runner.agent.tail(60) if report.violations else ""

    assert report.violations == [], log
    assert report.allocations >= 4
    assert report.kills
