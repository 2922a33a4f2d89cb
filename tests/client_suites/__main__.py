"""Run the test suites of clients: ``python -m tests.client_suites [SUITE …]``.

The suites are installed from the package index. With ``--server`` they also run against a kube-apiserver binary and
etcd, and each test that passes there has to pass with the bundled server. Without it, each test has to pass that is not
listed in ``failing.txt``, the tests that kube-apiserver fails too; ``--record`` writes the list.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.client_suites.suites import SUITES, Suite
from tests.integration.programs import ApiServer
from tests.integration.reference import ReferenceApiServer

_HERE = Path(__file__).parent
_FAILING = _HERE / "failing.txt"
_SUITE_SECONDS = 1800

Outcomes = dict[str, str]
"""Outcomes of tests by name: ``passed``, ``failed`` or ``skipped``."""


def main(arguments: Sequence[str]) -> int:
    """Run the suites and return the exit code: 0 if no test failed unexpectedly."""
    parser = argparse.ArgumentParser(prog="python -m tests.client_suites", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"default: all of {', '.join(SUITES)}")
    parser.add_argument("--server", type=Path, metavar="PATH", help="kube-apiserver to compare with; requires etcd")
    parser.add_argument("--record", action="store_true", help="write the tests that kube-apiserver fails")
    parser.add_argument("--dir", type=Path, default=Path("build/client-suites"), help="directory of all files")
    parser.add_argument(
        "--tests",
        action="append",
        default=[],
        metavar="SUITE=DIR",
        help="run the tests in DIR, for a client whose source distribution contains none; repeatable",
    )
    options = parser.parse_args(arguments)
    directories = dict(item.partition("=")[::2] for item in options.tests)
    if unknown := {*options.suites, *directories} - {*SUITES}:
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}")
    if options.record and options.server is None:
        parser.error("--record requires --server")
    known, unexpected = _known_failures(), False
    python = _environment(options.dir)
    for suite in (SUITES[name] for name in options.suites or SUITES):
        tests = _tests_of(suite, directories, options.dir)
        if not tests:
            print(f"{suite.name}: the source distribution contains no tests; use --tests {suite.name}=DIR")
            continue
        ours = _run(suite, python, tests, ApiServer(_fresh(options.dir / suite.name / "server")))
        if options.server is not None:
            reference = ReferenceApiServer(_fresh(options.dir / suite.name / "reference"), options.server.resolve())
            theirs = _run(suite, python, tests, reference)
            known[suite.name] = {name for name, outcome in theirs.items() if outcome == "failed"}
            print(f"{suite.name}: kube-apiserver passes {_passed(theirs)} of {len(theirs)}")
            wrong = regressions(ours, theirs)
        else:
            wrong = regressions(ours, dict.fromkeys(known.get(suite.name, ()), "failed"))
        print(f"{suite.name}: {_passed(ours)} of {len(ours)} pass")
        for name in wrong:
            print(f"  unexpected: {name}: {ours.get(name, 'not run')}")
        unexpected |= bool(wrong) or not ours
    if options.record:
        lines = (f"{suite} {name}\n" for suite, names in sorted(known.items()) for name in sorted(names))
        _FAILING.write_text("".join(lines))
    return int(unexpected)


def regressions(ours: Outcomes, theirs: Outcomes) -> list[str]:
    """Return the tests that fail or are missing in *ours* and do not fail in *theirs*. No I/O."""
    failed = {name for name, outcome in ours.items() if outcome == "failed"}
    passed_only_there = {name for name, outcome in theirs.items() if outcome == "passed" and ours.get(name) != outcome}
    return sorted(passed_only_there | {name for name in failed if theirs.get(name) != "failed"})


def _passed(outcomes: Outcomes) -> int:
    return sum(outcome == "passed" for outcome in outcomes.values())


def _known_failures() -> dict[str, set[str]]:
    """Return the tests that kube-apiserver fails, by suite."""
    found: dict[str, set[str]] = {}
    for line in _FAILING.read_text().splitlines():
        suite, _, name = line.partition(" ")
        found.setdefault(suite, set()).add(name)
    return found


def _fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory.resolve()


def _environment(directory: Path) -> Path:
    """Create the virtual environment of the suites if it is missing, and return its interpreter."""
    environment = (directory / "venv").resolve()
    packages = {"pytest", "pytest-rerunfailures", "pytest-timeout"}
    for suite in SUITES.values():
        packages |= {suite.requirement, *suite.requires}
    ready, expected = environment / "installed.txt", "\n".join(sorted(packages))
    if not ready.exists() or ready.read_text() != expected:
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        _pip(environment / "bin/python", "install", *sorted(packages))
        ready.write_text(expected)
    return environment / "bin/python"


def _tests_of(suite: Suite, directories: Mapping[str, str], directory: Path) -> list[Path]:
    """Return the tests of *suite*, from its source distribution or a given directory."""
    if suite.name in directories:
        return [Path(directories[suite.name]).resolve()]
    if not suite.tests:
        return []
    sources = directory / suite.name / suite.version
    if not sources.exists():
        downloads = _fresh(directory / suite.name / "downloads")
        _pip(
            Path(sys.executable),
            "download",
            "--no-deps",
            f"--no-binary={suite.package}",
            f"--dest={downloads}",
            suite.requirement,
        )
        (archive,) = downloads.glob("*.tar.gz")
        shutil.unpack_archive(archive, downloads, filter="data")
        next(item for item in downloads.iterdir() if item.is_dir()).rename(sources)
    return [(sources / item).resolve() for item in suite.tests]


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def _run(suite: Suite, python: Path, tests: Sequence[Path], server: ApiServer) -> Outcomes:
    """Run *tests* against *server* and return their outcomes."""
    server.start()
    try:
        kubeconfig, report = server.facts["kubeconfig"], server.directory / "report.xml"
        variables = {
            "KUBECONFIG": kubeconfig,
            "CLIENT_SUITES_KUBECONFIG": kubeconfig,
            "PYTHONPATH": str(_HERE / "stand_ins"),
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HOME": str(server.directory),
        }
        root = _root(tests)
        command = [str(python), "-m", "pytest", "-q", "-p", "client_suites_plugin", "-p", "no:cacheprovider"]
        command += [
            "-o",
            "addopts=",
            f"--timeout={suite.seconds}",
            "--reruns=1",
            f"--junit-xml={report}",
            f"--rootdir={root}",
        ]
        command += ["--import-mode=importlib", *suite.arguments, *map(str, tests)]
        # A suite that exceeds the limit has no report, and thus no tests that pass.
        with (server.directory / "pytest.log").open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                cwd=root,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_SUITE_SECONDS,
                check=False,
            )
        return _outcomes(report)
    finally:
        server.stop()


def _root(tests: Sequence[Path]) -> Path:
    """Return the directory of the source distribution that contains *tests*."""
    first = tests[0]
    return next((item for item in first.parents if (item / "PKG-INFO").exists()), first)


def _outcomes(report: Path) -> Outcomes:
    if not report.exists():
        return {}
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {item.tag for item in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
