"""The versions of kubectl that people have: the machine's own, Debian's where that is another, and newer ones.

Some packages put one kubectl for each release side by side, with one in front that starts that of the server's release.
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
"""Where tools/test-parts unpacks the package kubernetes-client."""


def _differ() -> bool:
    found, debian = shutil.which("kubectl"), DEBIAN / "kubectl"
    return found is None or not debian.exists() or not filecmp.cmp(found, debian)


NEWEST = 32
"""The newest minor release of which it is said that it works."""


def _newer() -> dict[str, Path]:
    """Return the newest of those that lie side by side, by its name."""
    found = shutil.which("kubectl")
    if found is None:
        return {}
    newest = Path(found).resolve().with_name(f"kubectl.1.{NEWEST}")
    return {newest.name: newest} if newest.exists() else {}


NEWER = _newer()
KUBECTLS = ("installed", *(["debian"] if _differ() else []), *NEWER)
"""Parameters for a fixture that does its work in :func:`kubectl_of`."""


@contextmanager
def kubectl_of(choice: str) -> Iterator[int]:
    """Have ``kubectl`` mean that of *choice*, and yield its minor version."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as places:
        if choice == "debian":
            assert (DEBIAN / "kubectl").exists(), "tools/test-parts unpacks Debian's kubectl"
            patch.setenv("PATH", f"{DEBIAN}:{os.environ['PATH']}")
        elif choice in NEWER:
            Path(places, "kubectl").symlink_to(NEWER[choice])
            patch.setenv("PATH", f"{places}:{os.environ['PATH']}")
        assert shutil.which("kubectl"), "tools/test-parts installs kubectl"
        command = ["kubectl", "version", "--client", "-o", "json"]
        told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        yield int(told["clientVersion"]["minor"].rstrip("+"))
