"""Shared fixtures and the specification coverage report."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nodeagent.testing.clock import FakeClock

ROOT = Path(__file__).parent.parent
ROWS_FILE = ROOT / "docs" / "spec" / "rows.tsv"
SERVING = "(process_request_thread)"
"""Suffix of the names of the standard library's connection threads."""
# Tests must not depend on the speed of the host.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")
IN_CI = bool(os.environ.get("CI"))


@pytest.fixture
async def clock() -> FakeClock:
    """Clock that the test advances."""
    return FakeClock()


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaks a task or a thread; leaked sockets and files raise ``ResourceWarning``."""
    before = set(threading.enumerate())
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("_no_task_leaks")
    yield
    leaked = [thread for thread in threading.enumerate() if thread not in before and not _is_shared(thread)]
    for thread in leaked:
        thread.join(1)
    if names := [thread.name for thread in leaked if thread.is_alive()]:
        pytest.fail(f"leaked threads: {', '.join(names)}")


@pytest.fixture
async def _no_task_leaks() -> AsyncIterator[None]:
    yield
    leaked = asyncio.all_tasks() - {asyncio.current_task()}
    if leaked:
        await asyncio.wait(leaked, timeout=0.1)  # cancelled tasks end in the next turn of the loop
    if names := [f"{task.get_name()} {task.get_coro()}" for task in leaked if not task.done()]:
        pytest.fail(f"leaked tasks: {', '.join(names)}")


def _is_shared(thread: threading.Thread) -> bool:
    """Return whether *thread* belongs to the loop's executor, which the loop stops, or to a shared server."""
    return thread.name.startswith("asyncio") or thread.name.endswith(SERVING)


class Rows:
    """Rows of the specification that are covered by at least one passed test and no failed one."""

    def __init__(self) -> None:
        lines = ROWS_FILE.read_text(encoding="utf-8").splitlines()[1:]
        self.known = [line.split("\t", 1)[0] for line in lines if line]
        self._of_test: dict[str, tuple[str, ...]] = {}
        self._listed_by: dict[str, tuple[str, ...]] = {}
        self._passed: dict[str, set[str]] = {}
        self._listed: set[str] = set()
        self._failed: set[str] = set()

    @property
    def covered(self) -> dict[str, list[str]]:
        """The covered rows in the order of the specification, with their tests."""
        return {row: sorted(self._passed[row]) for row in self.known if row in self._passed and row not in self._failed}

    @property
    def listed(self) -> list[str]:
        """The rows that do not apply and are documented with the reason, unless a test covers them."""
        return [row for row in self.known if row in self._listed - self._failed - self.covered.keys()]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = set(self.known)
        for item in items:
            for marker, of_test in (("row", self._of_test), ("listed_row", self._listed_by)):
                rows = tuple(row for mark in item.iter_markers(marker) for row in mark.args)
                if unknown := [row for row in rows if row not in known]:
                    raise pytest.UsageError(f"{item.nodeid}: unknown row: {', '.join(unknown)}")
                if rows:
                    of_test[item.nodeid] = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for row in self._of_test.get(report.nodeid, ()):
            if report.failed:
                self._failed.add(row)
            elif report.when == "call" and report.passed:
                self._passed.setdefault(row, set()).add(report.nodeid)
        for row in self._listed_by.get(report.nodeid, ()):
            if report.failed:
                self._failed.add(row)
            elif report.when == "call" and report.passed:
                self._listed.add(row)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        build = ROOT / "build"
        build.mkdir(exist_ok=True)
        text = json.dumps(self.covered, indent=1, ensure_ascii=False) + "\n"
        (build / "rows.json").write_text(text, encoding="utf-8")
        listed = f", {len(self.listed)} listed as not applicable" if self.listed else ""
        terminalreporter.write_line(f"rows proven: {len(self.covered)} of {len(self.known)}{listed}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Rows(), "rows")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need root if it is missing; CI skips nothing."""
    if IN_CI or os.geteuid() == 0:
        return
    needs_root = pytest.mark.skip(reason="needs root")
    for item in items:
        if item.get_closest_marker("integration") or "integration" in item.path.parts:
            item.add_marker(needs_root)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):  # type: ignore[attr-defined]
        report.outcome = "failed"  # type: ignore[attr-defined]
        report.longrepr = f"skipped in CI: {report.longrepr}"  # type: ignore[attr-defined]
    return report
