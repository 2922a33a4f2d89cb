"""Features that CRI does not report, derived from the name and version of the runtime. No I/O."""

from __future__ import annotations

import re

from nodeagent.contracts.runtime import RuntimeVersion

_FIRST_WITH_IMAGE_VOLUMES = {"containerd": (2, 1), "cri-o": (1, 31), "nodeagent-embedded": (0, 0)}
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def supports_image_volumes(version: RuntimeVersion) -> bool:
    """Return whether the runtime mounts images as volumes.

    Older versions ignore the image of a mount, and report an unrelated error about its empty host path.
    """
    first = _FIRST_WITH_IMAGE_VOLUMES.get(version.name.lower())
    found = _VERSION.match(version.version)
    return first is not None and found is not None and (int(found[1]), int(found[2])) >= first
