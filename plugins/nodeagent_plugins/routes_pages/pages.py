"""Contents of ``/flagz`` and ``/statusz``. No I/O."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nodeagent.base import identity
from nodeagent.base.release import SelectedRelease
from nodeagent.base.structs import Struct
from nodeagent_plugins.routes_pages.negotiation import GROUP, ObjectVersion

_NOTE = "This page is not an API: its layout can change at any time."


class AgentRun(Struct, frozen=True):
    """State of the running agent; *paths* are those that its server serves."""

    started_at: datetime
    now: datetime
    selected: SelectedRelease
    paths: Sequence[str]

    @property
    def uptime_seconds(self) -> int:
        """The time since the start, in full seconds."""
        return max(int((self.now - self.started_at).total_seconds()), 0)


def flags_page(values: Mapping[str, object]) -> str:
    """Return every flag with the effective value, wherever it was set."""
    return _page("flags", [f"{name}={text}" for name, text in _texts(values).items()])


def flags_object(values: Mapping[str, object], version: ObjectVersion) -> dict[str, Any]:
    """Return the flags as an API object."""
    return _object("Flagz", version, {"flags": _texts(values)})


def status_page(run: AgentRun) -> str:
    """Return start time, uptime, versions and paths."""
    seconds = run.uptime_seconds
    return _page(
        "statusz",
        [
            f"Started: {run.started_at:%a %b %d %H:%M:%S UTC %Y}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {run.selected.node_version}",
            f"Compatibility version: {run.selected}",
            f"Paths: {' '.join(run.paths)}",
        ],
    )


def status_object(run: AgentRun, version: ObjectVersion) -> dict[str, Any]:
    """Return start time, uptime, versions and paths as an API object; the Go version is empty."""
    return _object(
        "Statusz",
        version,
        {
            "startTime": f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": run.uptime_seconds,
            "goVersion": "",
            "binaryVersion": run.selected.node_version.removeprefix("v"),
            "emulationVersion": str(run.selected.release),
            "paths": list(run.paths),
        },
    )


def _object(kind: str, version: ObjectVersion, content: Mapping[str, Any]) -> dict[str, Any]:
    name = identity.current().component
    return {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": name}, **content}


def _page(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{identity.current().component} {title}", _NOTE, "", *lines]) + "\n"


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {name: _shown(value) for name, value in sorted(values.items())}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_shown(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_shown, value))
    return "" if value is None else str(value)
