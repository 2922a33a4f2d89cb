"""Short run of tests.kills: processes are killed while pods use their claims."""

from __future__ import annotations

import pytest

from tests.integration.containerd import Containerd
from tests.kills.parties import Parties
from tests.kills.runner import Runner


@pytest.mark.timeout(600)
def test_kills_lose_no_data_and_leave_nothing_behind(
    containerd: Containerd, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("k")  # The path of a socket is limited to 107 characters.
    with Parties(directory, containerd).running() as parties:
        report = Runner(parties, seed=29).run(4)
        log = parties.agent.tail(100) if report.violations else ""

    assert report.violations == [], log
    assert report.points == 4
    assert report.records
    assert report.published
