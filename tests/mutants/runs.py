"""Runs of tests: one process collects them, and a fork of it per mutant runs those of the mutated module."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.memory import memory_directory
from tests.mutants.functions import LoadedFunctions
from tests.mutants.orphans import adopt_orphans, kill_orphans
from tests.mutants.processes import HOOK, detect, environment
from tests.mutants.selection import Selection, candidates
from tests.mutants.sites import ROOT, Mutant

LOGS = ROOT / "build" / "mutants"
TEST_SECONDS = 60
"""Limit per test, for those that wait for ever with a mutant."""
RUN_SECONDS = 600
DETECTED, EVALUATED_AT_IMPORT = 1, 2
"""Exit codes of a fork, besides 0."""


@dataclass(frozen=True)
class Result:
    """Result of the tests of a mutant.

    :ivar stage: the tests that detected it, ``unit`` or ``integration``; ``survived``, or ``untested`` without tests.
    """

    mutant: Mutant
    stage: str
    seconds: float
    tests: int

    @property
    def detected(self) -> bool:
        return self.stage in ("unit", "integration")


class Runs:
    """Pytest plugin that tests mutants with the collected tests, instead of running these."""

    def __init__(self, mutants: Sequence[Mutant], *, integration: bool, report: Callable[[Result, int], None]) -> None:
        self.results: list[Result] = []
        self._mutants = mutants
        self._integration = integration
        self._report = report
        self._passing: set[str] = set()
        self._failing: set[str] = set()
        """Tests that pass, and fail, without a mutant."""

    def start(self) -> None:
        """Collect the unit tests and test each mutant; takes seconds per mutant."""
        _keep_descriptors()
        if self._integration:
            adopt_orphans()
        with tempfile.TemporaryDirectory(
            prefix="mutants-", dir=memory_directory(), ignore_cleanup_errors=True
        ) as directory:
            limits = [f"--basetemp={directory}/tests", f"--timeout={TEST_SECONDS}", "--continue-on-collection-errors"]
            pytest.main(
                [
                    "-q",
                    "-s",
                    "--no-summary",
                    "-p",
                    "no:cacheprovider",
                    *limits,
                    *candidates(self._mutants, integration=self._integration),
                ],
                plugins=[self],
            )
            if self._integration:
                # Pytest warns about modules of the product that are imported before it starts.
                from tests.integration.programs import unmount_below

                unmount_below(Path(directory))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        loaded, selection = LoadedFunctions(), Selection(session.items)
        LOGS.mkdir(parents=True, exist_ok=True)
        session.testsfailed = 0  # Errors of the collection: tests of optional dependencies.
        gc.collect()
        gc.freeze()  # A collection in a fork would copy the memory of the objects.
        for mutant in self._mutants:
            result = self._test(mutant, loaded, selection)
            self.results.append(result)
            self._report(result, len(self.results))
        return True

    def _test(self, mutant: Mutant, loaded: LoadedFunctions, selection: Selection) -> Result:
        log = LOGS / f"{mutant.path.replace('/', '.')}-{mutant.index}-{mutant.part}.log"
        started, run = time.monotonic(), selection.tests(mutant)
        stage = "survived"
        if self._detects(mutant, loaded, run, log):
            stage = "unit"
        elif self._integration:
            further = selection.integration_tests(mutant)
            run += further
            if self._detects(mutant, loaded, further, log):
                stage = "integration"
        if stage != "survived":
            log.unlink(missing_ok=True)
        return Result(mutant, stage if run else "untested", time.monotonic() - started, len(run))

    def _detects(self, mutant: Mutant, loaded: LoadedFunctions, tests: Sequence[pytest.Item], log: Path) -> bool:
        tests = [test for test in tests if test.nodeid not in self._failing]
        if not tests:
            return False
        code, failed = self._fork(mutant, loaded, tests, log)
        if code == EVALUATED_AT_IMPORT:
            modules = list(dict.fromkeys(str(test.path.relative_to(ROOT)) for test in tests))
            return detect(mutant, modules, log, RUN_SECONDS)
        if failed is None:
            return code != 0  # A test ended the process.
        if failed.nodeid not in self._passing and self._fork(None, loaded, [failed], log)[0]:
            self._failing.add(failed.nodeid)
            return self._detects(mutant, loaded, tests, log)
        self._passing.add(failed.nodeid)
        return True

    def _fork(
        self, mutant: Mutant | None, loaded: LoadedFunctions, tests: Sequence[pytest.Item], log: Path
    ) -> tuple[int, pytest.Item | None]:
        """Run *tests* in a fork; return its exit code and the test that failed."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _run(mutant, loaded, tests, log, writer)
        os.close(writer)
        with open(reader, "rb") as failed:
            code = _wait(child, RUN_SECONDS)
            # Processes that a test left behind may have inherited the pipe.
            os.set_blocking(reader, False)
            number = failed.read()
        if self._integration:
            kill_orphans()
        return code, tests[int(number)] if number else None


def _keep_descriptors() -> None:
    """Keep the inherited descriptors, such as locks of the caller, from processes that a mutant leaves behind."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            os.set_inheritable(int(name), int(name) <= 2)


def _run(mutant: Mutant | None, loaded: LoadedFunctions, tests: Sequence[pytest.Item], log: Path, failed: int) -> None:
    """Run *tests* with *mutant* in this fork, write the number of the one that failed to *failed*, and exit."""
    code = DETECTED
    try:
        os.setpgid(0, 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
            os.dup2(stream, target)
        if mutant is None or _mutate(mutant, loaded):
            number = _first_failure(tests)
            if number is None:
                code = 0
            else:
                os.write(failed, str(number).encode())
        else:
            code = EVALUATED_AT_IMPORT
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _mutate(mutant: Mutant, loaded: LoadedFunctions) -> bool:
    """Mutate this process, the modules that it imports later, and the processes that it starts."""
    os.environ.update(environment(mutant))
    sys.path.insert(0, str(HOOK))
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")
    return loaded.mutate(mutant) or not _is_loaded(mutant)


def _first_failure(tests: Sequence[pytest.Item]) -> int | None:
    session = tests[0].session
    for number, (test, following) in enumerate(zip(tests, [*tests[1:], None], strict=True)):
        session.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        if session.testsfailed:
            # Stop what the fixtures of modules and of the session have started.
            session.config.hook.pytest_runtest_teardown(item=test, nextitem=None)
            return number
    return None


def _is_loaded(mutant: Mutant) -> bool:
    path = str(ROOT / mutant.path)
    return any(getattr(module, "__file__", None) == path for module in list(sys.modules.values()))


def _wait(child: int, seconds: float) -> int:
    """Return the exit code of *child*, or 0 if it had to be killed: its tests were too many, as each has a limit."""
    due = time.monotonic() + seconds
    while time.monotonic() < due:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 0
