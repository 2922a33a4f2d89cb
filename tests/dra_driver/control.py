"""Faults, health and recorded calls of the driver, in files that a test and the process share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict


class Faults(TypedDict, total=False):
    """Behavior of the driver that a test requests."""

    hang: list[str]
    """Names of methods that do their work but do not return."""
    errors: dict[str, str]
    """Error messages by method, for all claims."""
    fail: dict[str, str]
    """Error messages by method that end the call."""
    exit_in: str
    """Name of a method in which the process exits, after its work is done."""
    skip: bool
    """Responses have no claims."""


class Control:
    """Files below *directory*."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._faults, self._health = directory / "faults.json", directory / "health.json"
        self._calls, self._prepared = directory / "calls.jsonl", directory / "prepared.json"

    def set_faults(self, faults: Faults) -> None:
        self._write(self._faults, dict(faults))

    def faults(self) -> Faults:
        found: Faults = self._read(self._faults, {})
        return found

    def set_health(self, health: dict[str, str]) -> None:
        """Replace the health (``HEALTHY``, ``UNHEALTHY``) of the devices of the pool ``node-1``, by name."""
        self._write(self._health, health)

    def health(self) -> dict[str, str]:
        found: dict[str, str] = self._read(self._health, {})
        return found

    def record(self, method: str, uids: list[str]) -> None:
        with self._calls.open("a") as stream:
            stream.write(json.dumps({"method": method, "uids": uids}) + "\n")

    def calls(self, method: str = "") -> list[dict[str, Any]]:
        """Return the recorded calls, of all methods by default."""
        if not self._calls.exists():
            return []
        found = [json.loads(line) for line in self._calls.read_text().splitlines()]
        return [call for call in found if method in ("", call["method"])]

    def set_prepared(self, prepared: dict[str, list[str]]) -> None:
        self._write(self._prepared, prepared)

    def prepared(self) -> dict[str, list[str]]:
        """Return the prepared devices by UID of the claim."""
        found: dict[str, list[str]] = self._read(self._prepared, {})
        return found

    def _write(self, path: Path, content: Any) -> None:
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(content))
        aside.replace(path)

    def _read(self, path: Path, default: Any) -> Any:
        return json.loads(path.read_text()) if path.exists() else default
