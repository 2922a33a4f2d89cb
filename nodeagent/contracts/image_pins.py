"""Image pins: the file of images that an operator has pinned on this node, which image garbage collection keeps.

CRI has no call that pins an image; images that the runtime pins on its own are kept too and not listed here.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from nodeagent.base.atomic_file import write_private
from nodeagent.errors import NodeAgentError

FILE_NAME = "image_pins.json"


def read_pins(root: Path) -> frozenset[str]:
    """Return the pinned images, by full name or ID; none if there is no file.

    :raises NodeAgentError: the file cannot be read or is invalid.
    """
    path = root / FILE_NAME
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, RecursionError) as error:
        raise NodeAgentError(
            f"read pinned images from {path}: {error}; fix the file, or remove it and pin again"
        ) from error
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        raise NodeAgentError(
            f"read pinned images from {path}: it has no list of images; fix the file, or remove it and pin again"
        )
    return frozenset(images)


def write_pins(root: Path, pins: Collection[str]) -> None:
    """Replace the pins atomically.

    :raises NodeAgentError: the file cannot be written.
    """
    path = root / FILE_NAME
    try:
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
        write_private(path, json.dumps({"images": sorted(pins)}, indent=2).encode(), mode=0o644)
    except OSError as error:
        raise NodeAgentError(f"write pinned images to {path}: {error}") from error
