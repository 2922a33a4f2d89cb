"""Texts of the events Created and Started, which differ by release. No I/O."""

from __future__ import annotations

from nodeagent.base.release import Release

_COLON = Release(1, 32)
"""First release with a colon before the name of a created container."""
_UNNAMED = Release(1, 35)
"""First release without the name, which the field path of the event contains."""


def created_text(container: str, release: Release) -> str:
    """Return the text of the event that *container* was created."""
    if release >= _UNNAMED:
        return "Container created"
    return f"Created container: {container}" if release >= _COLON else f"Created container {container}"


def started_text(container: str, release: Release) -> str:
    """Return the text of the event that *container* was started."""
    return "Container started" if release >= _UNNAMED else f"Started container {container}"
