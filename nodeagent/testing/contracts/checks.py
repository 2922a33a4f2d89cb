"""What every check of a node does that ``nodeagent doctor`` runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, Severity

_LIMIT_SECONDS = 15.0


class NodeCheckContract:
    """Fixture to provide: ``checks``, all that one plugin brings."""

    @pytest.fixture
    async def checks(self) -> Sequence[NodeCheck]:
        """The implementation."""
        raise NotImplementedError

    async def test_each_has_a_name_of_its_own(self, checks: Sequence[NodeCheck]) -> None:
        names = [check.name for check in checks]
        assert len(set(names)) == len(names) > 0
        assert all(name and name == name.strip() for name in names)

    async def test_all_run_at_the_same_time_and_in_time(self, checks: Sequence[NodeCheck]) -> None:
        async with asyncio.timeout(_LIMIT_SECONDS):
            answers = await asyncio.gather(*(_findings(check) for check in checks))
        assert all(isinstance(finding, Finding) for answer in answers for finding in answer)

    async def test_each_finding_says_what_is_wrong_and_what_to_do(self, checks: Sequence[NodeCheck]) -> None:
        for check in checks:
            for finding in await _findings(check):
                assert finding.text and finding.remedy, check.name
                assert finding.severity in set(Severity)


async def _findings(check: NodeCheck) -> Sequence[Finding]:
    """Return what *check* found; nothing when it cannot tell, as it may."""
    try:
        return await check.run()
    except CheckInconclusive:
        return ()
