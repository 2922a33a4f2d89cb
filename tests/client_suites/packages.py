"""Installation of clients and of the tests in their source distributions, from the package indexes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.client_suites.suites import SUITES, Suite

OWN = Path(__file__).parent / "own"
_RUNNER = ("pytest", "pytest-rerunfailures", "pytest-timeout", "pytest-xdist")


def python_environment(directory: Path) -> Path:
    """Create the virtual environment of the suites if it is missing, and return its interpreter."""
    environment = (directory / "venv").resolve()
    packages = {*_RUNNER}
    for suite in SUITES.values():
        if not suite.is_node:
            packages |= {suite.requirement, *suite.requires}
    ready, expected = environment / "installed.txt", "\n".join(sorted(packages))
    if not ready.exists() or ready.read_text() != expected:
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        _pip(environment / "bin/python", "install", *sorted(packages))
        ready.write_text(expected)
    return environment / "bin/python"


def node_environment(suite: Suite, directory: Path) -> Path:
    """Install the package of npm that *suite* tests if it is missing, and return the directory of its tests."""
    environment = (directory / suite.name / "packages").resolve()
    if not (environment / "node_modules" / suite.package).exists():
        fresh(environment)
        (environment / "package.json").write_text('{"private": true}')
        package = f"{suite.package}@{suite.version}"
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", package]
        subprocess.run(command, cwd=environment, check=True)
    shutil.copy(OWN / suite.own, environment)  # Modules are found next to the file.
    return environment


def tests_of(suite: Suite, directories: Mapping[str, str], directory: Path) -> list[Path]:
    """Return the tests of *suite*: those in a given directory, of its source distribution, or of this project."""
    if suite.name in directories:
        return [Path(item).resolve() for item in directories[suite.name].split(os.pathsep)]
    if suite.own:
        copy = fresh(directory / suite.name / "own") / suite.own  # Away from the conftest.py of this project.
        return [Path(shutil.copy(OWN / suite.own, copy))]
    sources = directory / suite.name / suite.version
    if not sources.exists():
        downloads = fresh(directory / suite.name / "downloads")
        options = ["--no-deps", f"--no-binary={suite.package}", f"--dest={downloads}"]
        _pip(Path(sys.executable), "download", *options, suite.requirement)
        (archive,) = downloads.glob("*.tar.gz")
        subprocess.run(["tar", "-xf", archive, "-C", downloads], check=True)
        next(item for item in downloads.iterdir() if item.is_dir()).rename(sources)
    return [(sources / item).resolve() for item in suite.tests]


def fresh(directory: Path) -> Path:
    """Return *directory*, created without content."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory.resolve()


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)
