"""``nodeagent demo --once``, what ``make run ONCE=1`` runs, shows a pod's life and cleans up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nodeagent", "demo", "--once", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def test_shows_node_pod_log_and_events_and_stops_everything(containerd, tmp_path: Path) -> None:
    result = demo("--endpoint", containerd.endpoint, "--dir", str(tmp_path))

    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("demo-node  Ready=True", "Running", "tick 1 from demo", "Started container main", "ended and removed"):
        assert text in result.stdout
    assert containerd.ctr("containers", "ls", "-q") == ""


def test_says_what_to_do_without_a_runtime(tmp_path: Path) -> None:
    result = demo("--endpoint", f"unix://{tmp_path}/none.sock", "--dir", str(tmp_path))

    assert result.returncode == 3
    assert "install and start one (apt install containerd)" in result.stderr
