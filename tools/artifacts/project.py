"""The project to build: version, time of the last commit, architecture and dependencies."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.13")
"""Python versions of the supported releases of Debian, 12 and 13."""
_LOCK = Path(__file__).parent / "requirements.txt"


def version() -> str:
    """Return the version of the project."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def package_version() -> str:
    """Return the version of the Debian packages: after a release, with the date and the ID of the commit."""
    base = version()
    if not (ROOT / ".git").exists() or _git("tag", "--list", f"v{base}", "--points-at", "HEAD"):
        return base
    date, commit = _git("log", "-1", "--format=%cd %h", "--date=format:%Y%m%d%H%M%S", "--abbrev=8").split()
    return f"{base}+git{date}.{commit}"


def source_date() -> int:
    """Return the time stamp of all files: ``SOURCE_DATE_EPOCH``, else the time of the last commit."""
    if found := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(found)
    return int(_git("log", "-1", "--format=%ct")) if (ROOT / ".git").exists() else 315532800


def architecture() -> str:
    """Return Debian's name of the architecture."""
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def requirements() -> list[str]:
    """Return the pinned distributions to bundle."""
    lines = _LOCK.read_text().splitlines()
    return [line for line in lines if re.fullmatch(r"[\w.-]+==[\w.]+", line)]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
