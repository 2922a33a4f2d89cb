"""The versions of kubectl that people have: the machine's own, and Debian's where that is another."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEBIAN = Path(__file__).parents[2] / "build/kubernetes-client/usr/bin"
"""Where tools/test-parts unpacks the package kubernetes-client."""


def _differ() -> bool:
    found, debian = shutil.which("kubectl"), DEBIAN / "kubectl"
    return found is None or not debian.exists() or not filecmp.cmp(found, debian)


KUBECTLS = ("installed", "debian") if _differ() else ("installed",)
"""Parameters for a fixture that does its work in :func:`kubectl_of`."""


@contextmanager
def kubectl_of(choice: str) -> Iterator[int]:
    """Have ``kubectl`` mean that of *choice*, and yield its minor version."""
    with pytest.MonkeyPatch.context() as patch:
        if choice == "debian":
            assert (DEBIAN / "kubectl").exists(), "tools/test-parts unpacks Debian's kubectl"
            patch.setenv("PATH", f"{DEBIAN}:{os.environ['PATH']}")
        assert shutil.which("kubectl"), "tools/test-parts installs kubectl"
        command = ["kubectl", "version", "--client", "-o", "json"]
        told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        yield int(told["clientVersion"]["minor"].rstrip("+"))
