"""The version that the server reports."""

from __future__ import annotations

import platform

from apiserver_stub.apimachinery.objects import Object

GIT_VERSION = "v1.29.1"
"""Release whose behavior the server has."""
_MAJOR, _MINOR = "1", "29"


def version(reported: str = "") -> Object:
    """Return the document at ``/version``, with the git version *reported* if there is one."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": _MAJOR,
        "minor": _MINOR,
        "gitVersion": reported or GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"linux/{machine}",
    }
