"""Runs of a suite against one server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from tests.client_suites.hollow_node import hollow_node
from tests.client_suites.packages import node_environment
from tests.client_suites.suites import Suite
from tests.integration.programs import ApiServer

_STAND_INS = Path(__file__).parent / "stand_ins"
_SUITE_SECONDS = 1200

Outcomes = dict[str, str]
"""Outcomes of tests by name: ``passed``, ``failed`` or ``skipped``."""


def run_pytest(suite: Suite, python: Path, tests: Sequence[Path], server: ApiServer) -> Outcomes:
    """Run *tests* against *server* and return their outcomes.

    A test that exceeds its time ends its process, as some clients block threads that cannot be interrupted; another
    process then continues with the next test.
    """
    root, report = _root(tests), server.directory / "report.xml"
    command = [str(python), "-m", "pytest", "-q", "-p", "client_suites_plugin", "-p", "no:cacheprovider"]
    # Without the options and warning filters of this project, which pytest reads for sources without a configuration.
    command += ["-o", "addopts=", "-o", "filterwarnings="]
    command += [f"--timeout={suite.seconds}", "--timeout-method=thread", "--reruns=1"]
    command += ["-n", "1", "--max-worker-restart=1000", f"--junit-xml={report}", f"--rootdir={root}"]
    command += ["--import-mode=importlib", *suite.arguments, *map(str, tests)]
    variables = {"PYTHONPATH": str(_STAND_INS), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    _run(command, root, variables, server)
    return _outcomes(report)


def run_node(suite: Suite, directory: Path, server: ApiServer) -> Outcomes:
    """Run the tests of a package of npm against *server* and return their outcomes."""
    environment, report = node_environment(suite, directory), server.directory / "report.xml"
    command = ["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={report}", suite.own]
    _run(command, environment, {"PATH": os.environ["PATH"]}, server)
    return _outcomes(report)


def _run(command: Sequence[str], directory: Path, variables: dict[str, str], server: ApiServer) -> None:
    kubeconfig = server.facts["kubeconfig"]
    variables |= {"KUBECONFIG": kubeconfig, "CLIENT_SUITES_KUBECONFIG": kubeconfig, "HOME": str(server.directory)}
    # A suite that exceeds the limit has no report, and thus no tests that pass.
    with (
        hollow_node(server),
        (server.directory / "output.log").open("wb") as output,
        contextlib.suppress(subprocess.TimeoutExpired),
    ):
        subprocess.run(
            command,
            cwd=directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=_SUITE_SECONDS,
            check=False,
        )


def _root(tests: Sequence[Path]) -> Path:
    """Return the directory of the source distribution that contains *tests*, or that of the tests."""
    first = tests[0]
    start = first if first.is_dir() else first.parent
    return next((item for item in first.parents if (item / "PKG-INFO").exists()), start)


def _outcomes(report: Path) -> Outcomes:
    if not report.exists():
        return {}
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {item.tag for item in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found
