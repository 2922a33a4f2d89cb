"""Versions of kubectl: the host's, Debian's if it differs, and newer ones.

Some packages install one kubectl per release, and a wrapper that starts that of the server's release.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

DEBIAN = Path(__file__).parents[2] / "build/kubernetes-client/usr/bin"
"""Directory to which tools/test-parts extracts the package kubernetes-client."""


def _differ() -> bool:
    found, debian = shutil.which("kubectl"), DEBIAN / "kubectl"
    return found is None or not debian.exists() or not filecmp.cmp(found, debian)


NEWEST = 32
"""Latest minor release that is documented as supported."""


def _newer() -> dict[str, Path]:
    """Return the latest of the installed releases by its name."""
    found = shutil.which("kubectl")
    if found is None:
        return {}
    newest = Path(found).resolve().with_name(f"kubectl.1.{NEWEST}")
    return {newest.name: newest} if newest.exists() else {}


NEWER = _newer()
KUBECTLS = ("installed", *(["debian"] if _differ() else []), *NEWER)
"""Parameters of a fixture that calls :func:`kubectl_of`."""


@contextmanager
def kubectl_of(choice: str) -> Iterator[int]:
    """Put the ``kubectl`` of *choice* in ``PATH``, and yield its minor version."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory:
        if choice == "debian":
            assert (DEBIAN / "kubectl").exists(), "tools/test-parts extracts Debian's kubectl"
            patch.setenv("PATH", f"{DEBIAN}:{os.environ['PATH']}")
        elif choice in NEWER:
            Path(directory, "kubectl").symlink_to(NEWER[choice])
            patch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
        assert shutil.which("kubectl"), "tools/test-parts installs kubectl"
        command = ["kubectl", "version", "--client", "-o", "json"]
        version = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        yield int(version["clientVersion"]["minor"].rstrip("+"))
