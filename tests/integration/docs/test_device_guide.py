"""Test for the example in docs/providing-devices.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_provider_of_the_guide_passes_its_contract(tmp_path):
    page = (ROOT / "docs/providing-devices.md").read_text()
    plugin, tests = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_sensors.py").write_text(plugin)
    (tmp_path / "test_my_sensors.py").write_text(tests)

    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert completed.returncode == 0, completed.stdout
