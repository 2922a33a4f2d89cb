"""Tests for the shutdown check of ``nodeagent doctor``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.checks import Severity
from nodeagent.contracts.configuration import seconds
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent_plugins import shutdown
from nodeagent_plugins.shutdown.check import shutdown_check
from nodeagent_plugins.shutdown.logind import LogindError


class Authority:
    def __init__(self, error: str = "") -> None:
        self._error = error

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        if self._error:
            raise LogindError(self._error)
        yield self

    async def watch(self) -> None:
        pass


async def test_unavailable_logind_is_a_problem() -> None:
    (found,) = await shutdown_check(Authority("connect to the system's message bus: no such file")).run()

    assert found.severity is Severity.PROBLEM
    assert "no such file" in found.text
    assert "systemd-logind" in found.remedy


async def test_available_logind_is_ok() -> None:
    assert await shutdown_check(Authority()).run() == []


@pytest.mark.parametrize(("period", "names"), [(30, ["shutdown"]), (0, [])])
def test_check_exists_only_with_a_grace_period(tmp_path: Path, period: int, names: list[str]) -> None:
    context = make_context(tmp_path, config=make_config(shutdown_grace_period=seconds(period)))
    manager = load_plugin(shutdown, name="shutdown", context=context)

    responses = manager.provide_all("nodeagent_provide_node_checks", context=context)

    assert [check.name for response in responses for check in response.value] == names
