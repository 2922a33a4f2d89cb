"""Order of API versions."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 2, "beta": 1, "alpha": 0}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of versions with the same priority: v2, v1, v2beta1, v1alpha2, then other names."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, version
    major, stage, minor = match.groups()
    return -_STAGES[stage], -int(major), -int(minor or 0), version
