"""Tests for the progress of ``nodeagent image pull`` on a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.containerd import Containerd
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.slow_registry import SlowRegistry

MIB = 1 << 20
PROGRESS = re.compile(rb"pulling [\w.:/]+: \d+ s, [\d.]+ MiB of [\d.]+ MiB received")


@pytest.fixture(params=["containerd", "embedded"])
def endpoint(request: pytest.FixtureRequest, registry: SlowRegistry) -> Iterator[str]:
    """Endpoint of a runtime that is configured to use the registry without TLS."""
    if request.param == "embedded":
        runtime = EmbeddedRuntime()
        try:
            runtime.start()
            yield runtime.endpoint
        finally:
            runtime.close()
        return
    containerd: Containerd = request.getfixturevalue("containerd")
    directory = containerd.directory / "certs.d" / registry.host
    directory.mkdir()
    (directory / "hosts.toml").write_text(f'[host."http://{registry.host}"]\n  capabilities = ["pull", "resolve"]\n')
    yield containerd.endpoint


@pytest.fixture
def registry() -> Iterator[SlowRegistry]:
    with SlowRegistry(4 * MIB) as running:
        yield running


def read_until(terminal: int, expected: re.Pattern[bytes]) -> bytes:
    output = b""
    while not expected.search(output):
        try:
            output += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            raise AssertionError(f"the command exited without the expected output: {output!r}") from None
    return output


def test_pull_displays_the_received_bytes_on_a_terminal(endpoint: str, registry: SlowRegistry, tmp_path: Path) -> None:
    terminal, theirs = os.openpty()
    command = [sys.executable, "-m", "nodeagent", "image", "pull", registry.image]
    command += [f"--container-runtime-endpoint={endpoint}", f"--root-dir={tmp_path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as pull:
        os.close(theirs)
        try:
            read_until(terminal, PROGRESS)
            registry.resume.set()
            out, _ = pull.communicate(timeout=60)
        finally:
            pull.kill()
            os.close(terminal)

    assert pull.returncode == 0
    assert out.decode().startswith(f"pulled {registry.image} as ")
