"""Driver calls: one process per call, with one JSON object as output."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nodeagent.base.aio.command import Command, CommandResult, Limits, run_command
from nodeagent.base.structs import Struct
from nodeagent.errors import VolumeError

LIMITS = Limits(seconds=110.0, output_bytes=1 << 20, error_bytes=1 << 16)
"""Shorter than the setup timeout of a volume, so that the error names the driver."""
SUCCESS, NOT_SUPPORTED = "Success", "Not supported"

Run = Callable[[Command, bytes, Limits], Awaitable[CommandResult]]


class NotSupported(VolumeError):
    """The driver leaves the call to the agent."""


class Capabilities(Struct, frozen=True):
    """Capabilities of a driver; the defaults apply to those it does not report."""

    attach: bool = True
    selinux_relabel: bool = True
    fs_group: bool = True


class Driver:
    """One version of a driver's executable.

    :raises VolumeError: from every call: it failed, timed out or produced invalid output.
    """

    def __init__(self, name: str, executable: Path, run: Run = run_command) -> None:
        self.name = name
        self._executable, self._run = executable, run
        self._unsupported: set[str] = set()

    async def init(self) -> Capabilities:
        """Initialize the driver; return its capabilities."""
        reported = (await self.call("init")).get("capabilities")
        given = {key.lower(): value for key, value in reported.items()} if isinstance(reported, dict) else {}

        def flag(key: str) -> bool:
            return given.get(key) is not False

        return Capabilities(flag("attach"), flag("selinuxrelabel"), flag("fsgroup"))

    async def call(self, command: str, *arguments: str) -> dict[str, Any]:
        """Return the driver's output for *command*, with keys in lower case.

        :raises NotSupported: the driver leaves the call to the agent; it is not called again.
        """
        if command in self._unsupported:
            raise NotSupported(NOT_SUPPORTED)
        # Drivers find their tools and settings in the agent's environment.
        executable = Command(str(self._executable), (command, *arguments), dict(os.environ), may_leave_children=True)
        try:
            finished = await self._run(executable, b"", LIMITS)
        except TimeoutError:
            raise VolumeError(f"{command} of driver {self.name} timed out after {LIMITS.seconds:.0f} s") from None
        except OSError as error:
            raise VolumeError(f"failed to run driver {self.name}: {error.strerror or error}") from error
        return self._parse_output(command, finished)

    def _parse_output(self, command: str, finished: CommandResult) -> dict[str, Any]:
        if finished.output is None:
            raise VolumeError(f"{command} of driver {self.name} wrote more than {LIMITS.output_bytes} bytes")
        # Many drivers report failures on standard error.
        output = _parsed(finished.output) or _parsed(finished.errors)
        if output is None:
            raise VolumeError(f"{command} of driver {self.name} wrote no JSON output (exit code {finished.code})")
        status = output.get("status")
        if status == NOT_SUPPORTED:
            self._unsupported.add(command)
            raise NotSupported(NOT_SUPPORTED)
        if status != SUCCESS:
            reason = _line(output.get("message", ""))
            raise VolumeError(f"{command} command failed, status: {_line(status)}, reason: {reason}")
        if finished.code != 0:
            raise VolumeError(f"{command} of driver {self.name} exited with code {finished.code}")
        return output


_LONGEST_MESSAGE = 500


def text(output: dict[str, Any], key: str) -> str:
    """Return a string field of the output, empty if it is missing."""
    value = output.get(key)
    return value if isinstance(value, str) else ""


def _parsed(output: bytes) -> dict[str, Any] | None:
    try:
        output = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return {key.lower(): value for key, value in output.items()} if isinstance(output, dict) else None


def _line(value: object) -> str:
    """Return driver output as a single line without control characters, for events and logs."""
    shown = "".join(char if char.isprintable() else " " for char in str(value))
    return shown if len(shown) <= _LONGEST_MESSAGE else f"{shown[:_LONGEST_MESSAGE]}…"
