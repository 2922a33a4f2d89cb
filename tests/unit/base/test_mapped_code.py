"""Tests for the executable code in the memory of a process."""

from __future__ import annotations

import subprocess
import sys

_UNMAP = """
import hashlib, json, ssl
from pathlib import Path
from nodeagent.base.mapped_code import unmap_code

def mapped():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if "RssFile" in line)

ssl.create_default_context()
before = mapped()
unmap_code()
print(mapped() < before, hashlib.sha256(json.dumps([1, 2]).encode()).hexdigest()[:8])
"""


def test_unused_code_is_not_resident_and_runs_again_when_called() -> None:
    done = subprocess.run([sys.executable, "-c", _UNMAP], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "3a316d6d"]
