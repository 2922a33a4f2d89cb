"""Shared fixtures and the specification coverage report."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from nodeagent.testing.clock import FakeClock
from tests.fewer_messages import FewerMessages
from tests.host_lock import HostLock

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
ROWS_FILE = ROOT / "docs" / "spec" / "rows.tsv"
SERVING = "(process_request_thread)"
"""Suffix of the names of the standard library's connection threads."""
ROW_MARKERS = ("row", "listed_row")
# Tests must not depend on the speed of the host.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("any-speed"), max_examples=25)
settings.load_profile("any-speed")
IN_CI = bool(os.environ.get("CI"))


@pytest.fixture
async def clock() -> FakeClock:
    """Clock that the test advances."""
    return FakeClock()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def grpc_thread() -> AsyncIterator[None]:
    """Start gRPC's thread for the session, so that the first test that needs it does not leak it."""
    import grpc.aio

    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


@pytest.fixture(autouse=True, scope="module")
def frozen_objects() -> None:
    """Exclude the tests and modules that exist until the end from garbage collections; some tests include them."""
    gc.collect()
    gc.freeze()


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


def _rows_of(item: pytest.Item, marker: str) -> list[str]:
    return [row for mark in item.iter_markers(marker) for row in mark.args]


class Rows:
    """Rows of the specification that are covered by at least one passed test and no failed one."""

    def __init__(self) -> None:
        lines = ROWS_FILE.read_text(encoding="utf-8").splitlines()[1:]
        self.known = [line.split("\t", 1)[0] for line in lines if line]
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
            if unknown := [row for marker in ROW_MARKERS for row in _rows_of(item, marker) if row not in known]:
                raise pytest.UsageError(f"{item.nodeid}: unknown row: {', '.join(unknown)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Add the rows to the report, which reaches this plugin in the process that summarizes the run."""
        report = yield
        for marker in ROW_MARKERS:
            setattr(report, marker, _rows_of(item, marker))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # The report of a crashed process has no rows.
        rows, listed = (getattr(report, marker, ()) for marker in ROW_MARKERS)
        if report.failed:
            self._failed.update(rows, listed)
        elif report.when == "call" and report.passed:
            for row in rows:
                self._passed.setdefault(row, set()).add(report.nodeid)
            self._listed.update(listed)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        BUILD.mkdir(exist_ok=True)
        text = json.dumps(self.covered, indent=1, ensure_ascii=False) + "\n"
        (BUILD / "rows.json").write_text(text, encoding="utf-8")
        listed = f", {len(self.listed)} listed as not applicable" if self.listed else ""
        terminalreporter.write_line(f"rows proven: {len(self.covered)} of {len(self.known)}{listed}")


# Tests start hundreds of Python processes; container images often disable the cache of compiled modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells start background processes like this; the processes of tests would inherit it and ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Rows(), "rows")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(HostLock(BUILD), "host_lock")
        config.pluginmanager.register(FewerMessages(), "fewer_messages")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.scheduling import ModuleScheduling

    config.option.loadscopereorder = False
    return ModuleScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need root if it is missing; CI skips nothing."""
    if hasattr(config, "workerinput"):
        from tests.scheduling import move_long_modules_first

        move_long_modules_first(items)
    if IN_CI or os.geteuid() == 0:
        return
    needs_root = pytest.mark.skip(reason="needs root")
    for item in items:
        if item.get_closest_marker("integration") or "integration" in item.path.parts:
            item.add_marker(needs_root)


def pytest_collection() -> None:
    gc.disable()  # Thousands of tests and their modules remain until the end.


def pytest_collection_finish() -> None:
    gc.freeze()  # Again before each module, see `frozen_objects`.
    # With the defaults, collections take a twentieth of the time of unit tests.
    gc.set_threshold(5_000, 10, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):  # type: ignore[attr-defined]
        report.outcome = "failed"  # type: ignore[attr-defined]
        report.longrepr = f"skipped in CI: {report.longrepr}"  # type: ignore[attr-defined]
    return report
