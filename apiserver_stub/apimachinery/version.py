"""The version that the server reports."""

from __future__ import annotations

import platform

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.release import BUILD, OLDEST, Release, SelectedRelease

_OLDEST_VERSION = "v1.29.1"
"""Version whose responses are recorded in tests."""
_WITH_COMPATIBILITY = Release(1, 33)
"""First release that reports the emulated and the oldest compatible release."""


def git_version(release: Release = OLDEST) -> str:
    """Return the version with patch number that the server reports for *release*, such as ``v1.36.2``."""
    return _OLDEST_VERSION if release == OLDEST else SelectedRelease(release).patch_version


def version(reported: str = "", release: Release = OLDEST) -> Object:
    """Return the document at ``/version``, with the git version *reported*.

    :param reported: if it is empty, that of the release, with the version of this project as build metadata.
    """
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    compatibility = {
        "emulationMajor": str(release.major),
        "emulationMinor": str(release.minor),
        "minCompatibilityMajor": str(release.major),
        "minCompatibilityMinor": str(release.minor - 1),
    }
    return {
        "major": str(release.major),
        "minor": str(release.minor),
        **(compatibility if release >= _WITH_COMPATIBILITY else {}),
        "gitVersion": reported or f"{git_version(release)}+{BUILD}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"linux/{machine}",
    }
