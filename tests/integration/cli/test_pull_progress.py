"""``nodeagent image pull`` on a terminal shows how much was received, as far as the runtime tells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.containerd import Containerd
from tests.integration.embedded_runtime.conftest import EmbeddedRuntime
from tests.integration.slow_registry import SlowRegistry

MIB = 1 << 20
FAR = re.compile(rb"pulling [\w.:/]+: \d+ s, [\d.]+ MiB of [\d.]+ MiB received")


@pytest.fixture(params=["containerd", "embedded"])
def endpoint(request: pytest.FixtureRequest, registry: SlowRegistry) -> Iterator[str]:
    """A runtime that may speak to the registry without TLS."""
    if request.param == "embedded":
        runtime = EmbeddedRuntime()
        try:
            runtime.start()
            yield runtime.endpoint
        finally:
            runtime.close()
        return
    containerd: Containerd = request.getfixturevalue("containerd")
    folder = containerd.directory / "certs.d" / registry.host
    folder.mkdir()
    (folder / "hosts.toml").write_text(f'[host."http://{registry.host}"]\n  capabilities = ["pull", "resolve"]\n')
    yield containerd.endpoint


@pytest.fixture
def registry() -> Iterator[SlowRegistry]:
    with SlowRegistry(4 * MIB) as running:
        yield running


def read_until(terminal: int, wanted: re.Pattern[bytes]) -> bytes:
    seen = b""
    while not wanted.search(seen):
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            raise AssertionError(f"the command ended without telling: {seen!r}") from None
    return seen


def test_a_pull_shows_on_the_terminal_how_much_was_received(
    endpoint: str, registry: SlowRegistry, tmp_path: Path
) -> None:
    terminal, theirs = os.openpty()
    command = [sys.executable, "-m", "nodeagent", "image", "pull", registry.image]
    command += [f"--container-runtime-endpoint={endpoint}", f"--root-dir={tmp_path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as pull:
        os.close(theirs)
        try:
            read_until(terminal, FAR)
            registry.goes_on.set()
            out, _ = pull.communicate(timeout=60)
        finally:
            pull.kill()
            os.close(terminal)

    assert pull.returncode == 0
    assert out.decode().startswith(f"pulled {registry.image} as ")
