"""Volumes of the simulated pods with the content of a config map, whose files have the same text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOUNT_PATH = "/config"
_NAMES = ("one", "other")


def config_data(value: int) -> dict[str, str]:
    """Return the data of a config map with *value*."""
    return dict.fromkeys(_NAMES, str(value))


def config_volume(name: str) -> dict[str, Any]:
    """Return a volume with the config map *name*, which need not exist."""
    return {"name": "config", "configMap": {"name": name, "optional": True, "defaultMode": 0o644}}


def read_files(directory: Path) -> dict[str, str]:
    """Return the files of a volume in *directory*."""
    return {name: (directory / name).read_text() for name in _NAMES if (directory / name).exists()}


def is_complete(files: Mapping[str, str]) -> bool:
    """Return whether *files* are those of one version of a config map."""
    return not files or (len(files) == len(_NAMES) and len(set(files.values())) == 1)
