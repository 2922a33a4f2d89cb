"""Tests for the commands for workloads and operators in docs/getting-started.md, in a running demo."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.test_demo import Demo
from tests.integration.docs.blocks import blocks

pytestmark = pytest.mark.integration
STARTED = "Ctrl-C stops the demo"


@pytest.fixture(scope="module")
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


def _run_block(text: str, kubeconfig: Path, directory: Path) -> str:
    """Run the block of the page that contains *text*, after its files were written, and return the output."""
    found = blocks("docs/getting-started.md")
    for block in found:
        for keyword, argument in block.notes:
            if keyword == "file":
                (directory / argument).write_text(block.text)
    (block,) = [item for item in found if text in item.text and item.is_shell]
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    output = directory / "output"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            ["bash", "-ec", block.text],
            cwd=directory,
            env=environment,
            stdout=file,
            stderr=file,
            start_new_session=True,
        ) as process,
    ):
        try:
            code = process.wait(100)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # Background processes of a block that failed.
    assert code == 0, output.read_text()
    return output.read_text()


def test_documented_commands_work(kubeconfig: Path, tmp_path: Path) -> None:
    output = _run_block("kubectl create deployment", kubeconfig, tmp_path)

    assert 'deployment "web" successfully rolled out' in output
    assert "deployment.apps/web rolled back" in output
    assert "job.batch/report-now condition met" in output


def test_documented_operator_works(kubeconfig: Path, tmp_path: Path) -> None:
    output = _run_block("kopf run", kubeconfig, tmp_path)

    assert 'deployment "one" successfully rolled out' in output
    assert "worker.example.com/one scaled" in output
    assert 'customresourcedefinition.apiextensions.k8s.io "workers.example.com" deleted' in output
