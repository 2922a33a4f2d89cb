"""Contract tests for the node checks of ``nodeagent doctor``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, Severity

_LIMIT_SECONDS = 15.0


class NodeCheckContract:
    """Contract of :class:`NodeCheck`. Override the fixture ``checks`` with all checks of a plugin."""

    @pytest.fixture
    async def checks(self) -> Sequence[NodeCheck]:
        """The implementations to test."""
        raise NotImplementedError

    async def test_names_are_unique_and_not_empty(self, checks: Sequence[NodeCheck]) -> None:
        names = [check.name for check in checks]
        assert len(set(names)) == len(names) > 0
        assert all(name and name == name.strip() for name in names)

    async def test_checks_complete_in_time_when_run_concurrently(self, checks: Sequence[NodeCheck]) -> None:
        async with asyncio.timeout(_LIMIT_SECONDS):
            results = await asyncio.gather(*(_findings(check) for check in checks))
        assert all(isinstance(finding, Finding) for findings in results for finding in findings)

    async def test_findings_have_text_remedy_and_severity(self, checks: Sequence[NodeCheck]) -> None:
        for check in checks:
            for finding in await _findings(check):
                assert finding.text and finding.remedy, check.name
                assert finding.severity in set(Severity)


async def _findings(check: NodeCheck) -> Sequence[Finding]:
    """Return the findings of *check*; none if it is inconclusive, which is allowed."""
    try:
        return await check.run()
    except CheckInconclusive:
        return ()
