"""Tests for the stages of the context: the type checker rejects a component that does not exist yet."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]

SOURCE = """
from nodeagent.contracts.context import ConfigContext, StatsContext

def early(context: ConfigContext) -> object:
    return context.pods

def later(context: StatsContext) -> object:
    return context.pods

def replace(context: StatsContext) -> None:
    context.pods = context.pods
"""


def test_type_checker_rejects_early_components_and_assignments(tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(textwrap.dedent(SOURCE))
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = silent\nignore_missing_imports = true\n")

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=mypy.ini", f"--cache-dir={tmp_path}", "plugin.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    errors = [line.partition(" error: ")[2] for line in checked.stdout.splitlines() if " error: " in line]
    assert errors == [
        '"ConfigContext" has no attribute "pods"  [attr-defined]',
        'Property "pods" defined in "StatsContext" is read-only  [misc]',
    ]
