"""Support of CDI by container runtimes, which CRI does not report. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_FIRST = {"containerd": (1, 7, 2), "cri-o": (1, 28, 0)}
"""First release that reads the field of a container; earlier ones ignore it."""


@dataclass(frozen=True, slots=True)
class CdiSupport:
    """CDI settings of a runtime."""

    problem: str = ""
    """Reason why the runtime ignores CDI devices; empty if it applies them."""
    remedy: str = ""
    directories: Sequence[str] = DEFAULT_DIRECTORIES


def cdi_support(name: str, version: str, info: Mapping[str, str]) -> CdiSupport:
    """Return the settings of the runtime *name* of that *version*; an unknown runtime is assumed to support CDI.

    :param info: the verbose status of the runtime.
    """
    directories, enabled = _settings(info)
    first, found = _FIRST.get(name.lower()), _VERSION.match(version)
    if first is not None and found is not None and tuple(int(part or 0) for part in found.groups()) < first:
        needed = ".".join(map(str, first))
        return CdiSupport(
            f"{name} {version} does not support CDI devices", f"upgrade to {name} {needed} or later", directories
        )
    if enabled is False:
        remedy = 'set enable_cdi = true under [plugins."io.containerd.grpc.v1.cri"] and restart it'
        return CdiSupport(f"CDI is disabled in the configuration of {name} {version}", remedy, directories)
    return CdiSupport(directories=directories)


def _settings(info: Mapping[str, str]) -> tuple[Sequence[str], bool | None]:
    """Return the directories of specs, and whether CDI is enabled, ``None`` if it is not reported."""
    try:
        config = json.loads(info.get("config", "{}"))
    except ValueError:
        config = None
    if not isinstance(config, dict):
        return DEFAULT_DIRECTORIES, None
    listed, enabled = config.get("cdiSpecDirs") or (), config.get("enableCDI")
    directories = tuple(map(str, listed)) if isinstance(listed, list) else ()
    return directories or DEFAULT_DIRECTORIES, enabled if isinstance(enabled, bool) else None
