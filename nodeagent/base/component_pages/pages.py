"""Contents of ``/flagz`` and ``/statusz``. No I/O."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from nodeagent.base.component_pages.negotiation import GROUP, YAML, ObjectVersion, Representation
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

_NOTE = "This page is not an API: its layout can change at any time."


class ComponentRun(Struct, frozen=True):
    """State of a running component; *paths* are those that its server serves."""

    component: str
    started_at: datetime
    now: datetime
    version: str
    """Version that it reports, such as ``v1.36.2``."""
    release: Release
    release_text: str
    """The release in the text, with its origin."""
    paths: Sequence[str]

    @property
    def uptime_seconds(self) -> int:
        """The time since the start, in full seconds."""
        return max(int((self.now - self.started_at).total_seconds()), 0)


def flags_page(component: str, values: Mapping[str, object]) -> str:
    """Return every flag with the effective value, wherever it was set."""
    return _page(component, "flags", [f"{name}={text}" for name, text in _texts(values).items()])


def flags_object(component: str, values: Mapping[str, object], version: ObjectVersion) -> dict[str, Any]:
    """Return the flags as an API object."""
    return _object(component, "Flagz", version, {"flags": _texts(values)})


def status_page(run: ComponentRun) -> str:
    """Return start time, uptime, versions and paths."""
    seconds = run.uptime_seconds
    return _page(
        run.component,
        "statusz",
        [
            f"Started: {run.started_at:%a %b %d %H:%M:%S UTC %Y}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {run.version}",
            f"Compatibility version: {run.release_text}",
            f"Paths: {' '.join(run.paths)}",
        ],
    )


def status_object(run: ComponentRun, version: ObjectVersion) -> dict[str, Any]:
    """Return start time, uptime, versions and paths as an API object; the Go version is empty."""
    return _object(
        run.component,
        "Statusz",
        version,
        {
            "startTime": f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": run.uptime_seconds,
            "goVersion": "",
            "binaryVersion": run.version.removeprefix("v"),
            "emulationVersion": str(run.release),
            "paths": list(run.paths),
        },
    )


def encode_object(content: Mapping[str, Any], accepted: Representation) -> bytes:
    """Return an object in the representation *accepted*."""
    if accepted.media_type == YAML:
        import yaml  # Deferred: large, and rarely requested.

        return yaml.safe_dump(content).encode()
    body = msgspec.json.encode(content)
    return msgspec.json.format(body, indent=2) if accepted.pretty else body


def deprecation_of(content: Mapping[str, Any], accepted: Representation, release: Release) -> str:
    """Return the warning for a version that *release* deprecates, empty for other versions."""
    if accepted.version is not ObjectVersion.V1ALPHA1 or release < ObjectVersion.V1BETA1.since:
        return ""
    return f"This version of the {content['kind'].lower()} endpoint is deprecated. Please use a newer version."


def _object(component: str, kind: str, version: ObjectVersion, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": component}, **content}


def _page(component: str, title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{component} {title}", _NOTE, "", *lines]) + "\n"


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
