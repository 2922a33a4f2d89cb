"""Test runs with one mutant in new processes, for conditions that are evaluated at import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.sites import ROOT, Mutant

HOOK = Path(__file__).parent / "hook"
PYTEST = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "--assert=plain")
"""Options of pytest. Its import hook for assertions would load modules before ours does."""


def detect(mutant: Mutant, tests: Sequence[str], log: Path, seconds: float) -> bool:
    """Return whether one of *tests* fails with *mutant* within *seconds*."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "pytest", *PYTEST, *tests],
            cwd=ROOT,
            env={**os.environ, **environment(mutant)},
            stdout=output,
            stderr=output,
            process_group=0,
        ) as process,
    ):
        try:
            return process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def environment(mutant: Mutant) -> dict[str, str]:
    """Return the variables with which each Python process applies *mutant*."""
    search = os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH", "")]))
    return {
        "PYTHONPATH": search,
        "NODEAGENT_MUTANT": f"{ROOT / mutant.path}:{mutant.index}:{mutant.part}",
        "NODEAGENT_MUTANT_SITES": str(Path(__file__).parent / "sites.py"),
    }
