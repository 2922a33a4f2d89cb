"""Contract tests for the checks of ``nodeagent plugins check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nodeagent.contracts.plugin_checks import PluginCheck


class PluginCheckContract:
    """Contract of :class:`PluginCheck`. Override the fixture ``checks`` with all checks of a plugin."""

    @pytest.fixture
    async def checks(self) -> Sequence[PluginCheck]:
        """The implementations to test."""
        raise NotImplementedError

    async def test_file_names_are_unique_and_without_directory(self, checks: Sequence[PluginCheck]) -> None:
        names = [check.file_name for check in checks]
        assert len(set(names)) == len(names) > 0
        assert all(name and "/" not in name for name in names)

    async def test_invalid_file_is_a_problem(self, checks: Sequence[PluginCheck], tmp_path: Path) -> None:
        for check in checks:
            (tmp_path / check.file_name).write_bytes(b"\xff{")
            problems = await check.run(tmp_path)
            assert problems and all(isinstance(problem, str) and problem for problem in problems)
