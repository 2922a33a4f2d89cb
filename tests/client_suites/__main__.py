"""Run the test suites of clients: ``python -m tests.client_suites [SUITE …]``.

The clients are installed from the package indexes, with the tests in their source distributions; for clients without
any, this project has tests in ``own/``. With ``--server`` the suites also run against a kube-apiserver binary and etcd,
with the kube-controller-manager next to it, and each test that passes there has to pass with the bundled server.
Without it, each test has to pass that is not listed in ``failing.txt``, the tests that fail with both servers;
``--record`` writes the list.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.client_suites.controllers import upstream_controllers
from tests.client_suites.packages import fresh, python_environment, tests_of
from tests.client_suites.runs import Outcomes, run_node, run_pytest
from tests.client_suites.suites import SUITES, Suite
from tests.integration.programs import ApiServer
from tests.integration.reference import ReferenceApiServer

_FAILING = Path(__file__).parent / "failing.txt"


def main(arguments: Sequence[str]) -> int:
    """Run the suites and return the exit code: 0 if no test failed unexpectedly."""
    parser = argparse.ArgumentParser(prog="python -m tests.client_suites", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"default: all of {', '.join(SUITES)}")
    parser.add_argument("--server", type=Path, metavar="PATH", help="kube-apiserver to compare with; requires etcd")
    parser.add_argument("--record", action="store_true", help="write the tests that fail with both")
    parser.add_argument("--dir", type=Path, default=Path("build/client-suites"), help="directory of all files")
    parser.add_argument(
        "--tests",
        action="append",
        default=[],
        metavar="SUITE=PATHS",
        help="run the tests in other files and directories (separated by colons) instead; repeatable",
    )
    options = parser.parse_args(arguments)
    paths = dict(item.partition("=")[::2] for item in options.tests)
    if unknown := {*options.suites, *paths} - {*SUITES}:
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}")
    if options.record and options.server is None:
        parser.error("--record requires --server")
    known, unexpected = _known_failures(), False
    python = python_environment(options.dir)
    for suite in (SUITES[name] for name in options.suites or SUITES):
        tests = tests_of(suite, paths, options.dir)
        ours = _run(suite, python, tests, options.dir)
        if options.server is not None:
            theirs = _run(suite, python, tests, options.dir, options.server.resolve())
            known[suite.name] = failing_with_both(ours, theirs)
            print(f"{suite.name}: kube-apiserver passes {_passed(theirs)} of {len(theirs)}", flush=True)
            wrong = regressions(ours, theirs)
        else:
            wrong = regressions(ours, dict.fromkeys(known.get(suite.name, ()), "failed"))
        print(f"{suite.name}: {_passed(ours)} of {len(ours)} pass", flush=True)
        for name in wrong:
            print(f"  unexpected: {name}: {ours.get(name, 'not run')}", flush=True)
        unexpected |= bool(wrong) or not ours
    if options.record:
        lines = (f"{suite} {name}\n" for suite, names in sorted(known.items()) for name in sorted(names))
        _FAILING.write_text("".join(lines))
    return int(unexpected)


def failing_with_both(ours: Outcomes, theirs: Outcomes) -> set[str]:
    """Return the tests that fail in *theirs* and do not pass in *ours*; others that pass have to pass on. No I/O."""
    return {name for name, outcome in theirs.items() if outcome == "failed" and ours.get(name) != "passed"}


def regressions(ours: Outcomes, theirs: Outcomes) -> list[str]:
    """Return the tests that fail or are missing in *ours* and do not fail in *theirs*. No I/O."""
    failed = {name for name, outcome in ours.items() if outcome == "failed"}
    passed_only_there = {name for name, outcome in theirs.items() if outcome == "passed" and ours.get(name) != outcome}
    return sorted(passed_only_there | {name for name in failed if theirs.get(name) != "failed"})


def _run(suite: Suite, python: Path, tests: Sequence[Path], directory: Path, reference: Path | None = None) -> Outcomes:
    """Run a suite against the bundled server, or against the kube-apiserver *reference*."""
    path = fresh(directory / suite.name / ("server" if reference is None else "reference"))
    server = ApiServer(path) if reference is None else ReferenceApiServer(path, reference)
    server.start()
    try:
        with contextlib.ExitStack() as stack:
            if reference is not None:
                stack.enter_context(upstream_controllers(reference.with_name("kube-controller-manager"), server))
            if suite.is_node:
                return run_node(suite, directory, server)
            return run_pytest(suite, python, tests, server)
    finally:
        server.stop()


def _passed(outcomes: Outcomes) -> int:
    return sum(outcome == "passed" for outcome in outcomes.values())


def _known_failures() -> dict[str, set[str]]:
    """Return the tests that kube-apiserver fails, by suite."""
    found: dict[str, set[str]] = {}
    for line in _FAILING.read_text().splitlines():
        suite, _, name = line.partition(" ")
        found.setdefault(suite, set()).add(name)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
