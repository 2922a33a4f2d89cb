"""Tests for the commands for workloads in docs/getting-started.md, in a running demo."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.test_demo import Demo
from tests.integration.docs.blocks import blocks

pytestmark = pytest.mark.integration
STARTED = "Ctrl-C stops the demo"


@pytest.fixture
def kubeconfig() -> Iterator[Path]:
    """Kubeconfig of a running demo."""
    demo = Demo(as_root=True)
    command = demo.command("--endpoint", "embedded")
    try:
        with subprocess.Popen(
            command, env=demo.environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            output = ""
            for line in process.stdout:
                output += line
                if STARTED in line:
                    break
            assert STARTED in output, output
            try:
                yield demo.root / "apiserver/admin.kubeconfig"
            finally:
                process.terminate()
                process.stdout.read()
    finally:
        demo.close()


def test_documented_commands_work(kubeconfig: Path) -> None:
    (block,) = [item for item in blocks("docs/getting-started.md") if "kubectl create deployment" in item.text]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    result = subprocess.run(
        ["bash", "-ec", block.text], env=environment, capture_output=True, text=True, timeout=100, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert 'deployment "web" successfully rolled out' in result.stdout
    assert "deployment.apps/web rolled back" in result.stdout
    assert "job.batch/report-now condition met" in result.stdout
