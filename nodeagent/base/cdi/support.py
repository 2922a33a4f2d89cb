"""Support of CDI by container runtimes, which CRI does not report. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES
from nodeagent.base.structs import Struct

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_FIRST = {"containerd": (1, 7, 0), "cri-o": (1, 23, 0)}
"""First release that applies CDI devices; earlier ones ignore them."""
_FIRST_FIELD = {"containerd": (1, 7, 2), "cri-o": (1, 28, 0)}
"""First release that reads the field of a container; before, they were in an annotation."""


class CdiSupport(Struct, frozen=True):
    """CDI settings of a runtime."""

    problem: str = ""
    """Reason why the runtime ignores CDI devices; empty if it applies them."""
    remedy: str = ""
    directories: Sequence[str] = DEFAULT_DIRECTORIES
    reads_field: bool = True
    """``False`` if the devices must be in an annotation of the container."""


def cdi_support(name: str, version: str, info: Mapping[str, str]) -> CdiSupport:
    """Return the settings of the runtime *name* of that *version*; an unknown runtime is assumed to support CDI.

    :param info: the verbose status of the runtime.
    """
    directories, enabled = _settings(info)
    match = _VERSION.match(version)
    release = tuple(int(part or 0) for part in match.groups()) if match is not None else None
    first = _FIRST.get(name.lower())
    if first is not None and release is not None and release < first:
        needed = ".".join(map(str, first))
        return CdiSupport(
            f"{name} {version} does not support CDI devices", f"upgrade to {name} {needed} or later", directories
        )
    if enabled is False:
        remedy = 'set enable_cdi = true under [plugins."io.containerd.grpc.v1.cri"] and restart it'
        return CdiSupport(f"CDI is disabled in the configuration of {name} {version}", remedy, directories)
    reads_field = release is None or release >= _FIRST_FIELD.get(name.lower(), release)
    return CdiSupport(directories=directories, reads_field=reads_field)


def _settings(info: Mapping[str, str]) -> tuple[Sequence[str], bool | None]:
    """Return the directories of specs, and whether CDI is enabled, ``None`` if it is not reported."""
    try:
        config = json.loads(info.get("config", "{}"))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        return DEFAULT_DIRECTORIES, None
    listed, enabled = config.get("cdiSpecDirs") or (), config.get("enableCDI")
    directories = tuple(map(str, listed)) if isinstance(listed, list) else ()
    return directories or DEFAULT_DIRECTORIES, enabled if isinstance(enabled, bool) else None
