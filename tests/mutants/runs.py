"""Test runs with one mutant: unit tests in a forked process, integration tests in a new one."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.sites import ROOT, Mutant

HOOK = Path(__file__).parent / "hook"
PRELOADED = (
    "aiohttp",
    "cryptography.x509",
    "grpc",
    "jsonschema",
    "kubernetes",
    "msgspec",
    "yaml",
)
"""Libraries that most tests import, loaded once before the fork; pytest cannot rewrite its plugins afterwards."""
UNIT_SECONDS = 180
INTEGRATION_SECONDS = 900
_PYTEST = ("-x", "-q", "--no-header", "-p", "no:cacheprovider")

INTEGRATION: Mapping[str, Sequence[str]] = {
    "apiserver_stub": ["apiserver"],
    "nodeagent/apiclient": ["apiclient", "agent"],
    "nodeagent/authoring": ["authoring", "plugins"],
    "nodeagent/cli": ["cli", "agent"],
    "nodeagent/demo": ["agent/test_demo.py"],
    "nodeagent/server": ["server"],
    "nodeagent/testing": ["testing", "authoring"],
    "nodeagent": ["agent", "cli", "plugins", "shutdown"],
    "plugins/nodeagent_plugins/cri": ["cri", "agent"],
    "plugins/nodeagent_plugins/embedded_runtime": ["embedded_runtime"],
    "plugins/nodeagent_plugins/eviction": ["eviction", "agent"],
    "plugins/nodeagent_plugins/routes_": ["server"],
    "plugins/nodeagent_plugins/auth": ["server"],
    "plugins/nodeagent_plugins/shutdown": ["shutdown"],
    "plugins/nodeagent_plugins/credential": ["credential_exec"],
    "plugins": ["agent", "plugins", "eviction"],
}
"""Integration tests by the prefix of a module's path; the longest prefix applies."""


@dataclass(frozen=True)
class Result:
    """Result of the tests of a mutant: the stage that detected it, or ``survived``."""

    mutant: Mutant
    stage: str
    seconds: float
    detail: str = ""


class UnitTests:
    """Runs unit tests in forks of this process, which has loaded the libraries but no module of the project."""

    def __init__(self) -> None:
        for name in PRELOADED:
            importlib.import_module(name)
        if loaded := [name for name in sys.modules if name.split(".")[0] in ("nodeagent", "apiserver_stub")]:
            raise RuntimeError(f"modules of the project are loaded: {', '.join(loaded)}")

    def detect(self, mutant: Mutant | None, tests: Sequence[str], log: Path) -> bool:
        """Return whether one of *tests* fails with *mutant*, or exceeds its time; without one, whether they fail."""
        child = os.fork()
        if not child:
            self._run(mutant, tests, log)
        return _wait(child, UNIT_SECONDS) != 0

    @staticmethod
    def _run(mutant: Mutant | None, tests: Sequence[str], log: Path) -> None:
        code = 1
        try:
            os.setpgid(0, 0)
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ.update(environment(mutant))
            if mutant is not None:
                sys.path.insert(0, str(HOOK))
                sys.modules.pop("sitecustomize", None)
                importlib.import_module("sitecustomize")
            pytest = importlib.import_module("pytest")
            with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
                code = int(pytest.main([*_PYTEST, f"--basetemp={directory}/tests", *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def detect_by_integration_tests(mutant: Mutant, log: Path) -> bool:
    """Return whether an integration test that covers the package of *mutant* fails."""
    prefix = max((prefix for prefix in INTEGRATION if mutant.path.startswith(prefix)), key=len)
    tests = [f"tests/integration/{name}" for name in INTEGRATION[prefix]]
    command = [sys.executable, "-m", "pytest", *_PYTEST, *tests]
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment(mutant)},
            stdout=output,
            stderr=output,
            process_group=0,
        )
        return _wait(child.pid, INTEGRATION_SECONDS) != 0


def environment(mutant: Mutant | None) -> dict[str, str]:
    """Return the variables with which each Python process applies *mutant*."""
    if mutant is None:
        return {}
    search = os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH", "")]))
    return {
        "PYTHONPATH": search,
        "NODEAGENT_MUTANT": f"{ROOT / mutant.path}:{mutant.index}:{mutant.part}",
        "NODEAGENT_MUTANT_SITES": str(Path(__file__).parent / "sites.py"),
    }


def _wait(child: int, seconds: float) -> int:
    """Return the exit code of *child*, or 1 if it had to be killed."""
    due = time.monotonic() + seconds
    while time.monotonic() < due:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1
