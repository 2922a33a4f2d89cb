"""Names of CDI devices, and the directories of their specs. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

DEFAULT_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""Static specs of administrators and packages, then those that drivers generate, which take precedence."""
ANNOTATION_PREFIX = "cdi.k8s.io/"
_MAX_VENDOR, _MAX_CLASS = 253, 63
_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def kind_error(kind: str) -> str:
    """Return the reason why *kind* is not of the form ``vendor/class``; empty for a valid one."""
    vendor, separator, kind_class = kind.partition("/")
    if not separator:
        return "must have the form vendor/class"
    for part, text, limit in (("vendor", vendor, _MAX_VENDOR), ("class", kind_class, _MAX_CLASS)):
        if len(text) > limit:
            return f"{part} must have at most {limit} characters"
        if not _KIND_PART.fullmatch(text):
            return f"{part} must consist of letters, digits and _-., start with a letter and end with a letter or digit"
    return ""


def device_error(name: str) -> str:
    """Return the reason why *name* is not a name of a device within its kind; empty for a valid one."""
    if _DEVICE.fullmatch(name):
        return ""
    return "must consist of letters, digits and _-.:, and start and end with a letter or digit"


def qualified_error(name: str) -> str:
    """Return the reason why *name* is not of the form ``vendor/class=device``; empty for a valid one."""
    kind, separator, device = name.partition("=")
    if not separator:
        return "must have the form vendor/class=device"
    return kind_error(kind) or device_error(device)


def requested_names(names: Iterable[str], annotations: Mapping[str, str]) -> list[str]:
    """Return the requested devices: *names*, then those in annotations, which older clients use; each once."""
    listed = (
        name.strip()
        for key, value in sorted(annotations.items())
        if key.startswith(ANNOTATION_PREFIX)
        for name in value.split(",")
    )
    return list(dict.fromkeys([*names, *(name for name in listed if name)]))
