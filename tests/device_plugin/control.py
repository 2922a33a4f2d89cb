"""Devices, faults and recorded calls of the plugin, in files that a test and the process share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict


class Faults(TypedDict, total=False):
    """Behavior of the plugin that a test requests."""

    hang: list[str]
    """Names of methods that do not return."""
    errors: dict[str, str]
    """Error messages by method."""
    exit_in: str
    """Name of a method in which the process exits."""
    response: dict[str, Any]
    """Fields of each ``ContainerAllocateResponse``, instead of the usual ones."""
    flood: bool
    """Send the same list repeatedly."""
    preferred: list[str]


class Control:
    """Files below *directory*."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._devices, self._faults = directory / "devices.json", directory / "faults.json"
        self._calls = directory / "calls.jsonl"

    def set_devices(self, devices: Sequence[dict[str, Any]]) -> None:
        """Replace the devices; each is ``{"id": …, "health": …, "nodes": […]}``."""
        self._write(self._devices, list(devices))

    def devices(self) -> list[dict[str, Any]]:
        return list(self._read(self._devices, []))

    def set_faults(self, faults: Faults) -> None:
        self._write(self._faults, dict(faults))

    def faults(self) -> Faults:
        found: Faults = self._read(self._faults, {})
        return found

    def record(self, method: str, **details: Any) -> None:
        with self._calls.open("a") as stream:
            stream.write(json.dumps({"method": method, **details}) + "\n")

    def calls(self, method: str = "") -> list[dict[str, Any]]:
        """Return the recorded calls, of all methods by default."""
        if not self._calls.exists():
            return []
        found = [json.loads(line) for line in self._calls.read_text().splitlines()]
        return [call for call in found if method in ("", call["method"])]

    def _write(self, path: Path, content: Any) -> None:
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(content))
        aside.replace(path)

    def _read(self, path: Path, default: Any) -> Any:
        return json.loads(path.read_text()) if path.exists() else default
