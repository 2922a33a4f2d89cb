"""Wheels: those of the project, and the pinned dependencies for each Python version."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from functools import cached_property
from pathlib import Path

from tools.artifacts import project


@dataclass(frozen=True)
class Wheel:
    """Distribution in a file."""

    path: Path

    @cached_property
    def archive(self) -> zipfile.ZipFile:
        """The open file; each opening reads the complete directory of the archive."""
        return zipfile.ZipFile(self.path)

    @cached_property
    def metadata(self) -> Message:
        (name,) = (each for each in self.archive.namelist() if each.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(self.archive.read(name))

    @property
    def name(self) -> str:
        return str(self.metadata["Name"])

    @property
    def version(self) -> str:
        return str(self.metadata["Version"])

    @property
    def license(self) -> str:
        """License: an SPDX expression if the distribution has one, else the first line of its license field."""
        found = self.metadata["License-Expression"] or ""
        if not found:
            kinds = [each for each in self.metadata.get_all("Classifier", []) if each.startswith("License :: OSI")]
            found = kinds[0].rpartition(" :: ")[2] if kinds else (self.metadata["License"] or "").partition("\n")[0]
        return str(found or "unknown")

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def build(directory: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist of the project, and return their paths."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(project.source_date())}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory)]
    # Modes of the checkout depend on the umask of its user; those of the archives must not.
    subprocess.run(command, cwd=project.ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = directory.glob("nodeagent-*.whl")
    (sdist,) = directory.glob("nodeagent-*.tar.gz")
    return wheel, sdist


def download(cache: Path, pinned: Sequence[str] = ()) -> Mapping[str, Sequence[Wheel]]:
    """Return wheels by Python version; files in *cache* are not downloaded again.

    :param pinned: distributions with their versions; those of the lock file if it is empty.
    """
    pinned = pinned or project.requirements()
    key = hashlib.sha256("\n".join(pinned).encode()).hexdigest()[:12]
    found = {}
    for python in project.PYTHONS:
        directory = cache / f"wheels-{python}-{project.architecture()}-{key}"
        if not directory.exists():
            incomplete = directory.with_name(f"{directory.name}.new")
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--only-binary=:all:", "--python-version", python, "--dest", str(incomplete)]
            subprocess.run([*command, *pinned], check=True)
            incomplete.rename(directory)
        found[python] = [Wheel(path) for path in sorted(directory.glob("*.whl"))]
        if len(found[python]) != len(pinned):
            raise RuntimeError(f"{directory} has {len(found[python])} of {len(pinned)} distributions")
    return found
