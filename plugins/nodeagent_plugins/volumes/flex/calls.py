"""Calling a driver: one program run for each call, one JSON object as its answer."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent.base.aio.command import Command, CommandResult, Limits, run_command
from nodeagent.errors import VolumeError

LIMITS = Limits(seconds=110.0, output_bytes=1 << 20, error_bytes=1 << 16)
"""A call ends before the volume's own time is up, so that its driver is named."""
SUCCESS, NOT_SUPPORTED = "Success", "Not supported"

Run = Callable[[Command, bytes, Limits], Awaitable[CommandResult]]


class NotSupported(VolumeError):
    """The driver leaves this call to the agent."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do; what it does not mention is as here."""

    attach: bool = True
    selinux_relabel: bool = True
    fs_group: bool = True


class Driver:
    """One version of a driver's program.

    :raises VolumeError: from every call: it failed, took too long, or answered what nobody can read.
    """

    def __init__(self, name: str, program: Path, run: Run = run_command) -> None:
        self.name = name
        self._program, self._run = program, run
        self._unsupported: set[str] = set()

    async def init(self) -> Capabilities:
        """Have the driver prepare itself; return what it can do."""
        told = (await self.call("init")).get("capabilities")
        given = {key.lower(): value for key, value in told.items()} if isinstance(told, dict) else {}

        def flag(key: str) -> bool:
            return given.get(key) is not False

        return Capabilities(flag("attach"), flag("selinuxrelabel"), flag("fsgroup"))

    async def call(self, command: str, *arguments: str) -> dict[str, Any]:
        """Return the driver's answer to *command*, its keys in lower case.

        :raises NotSupported: the driver leaves it to the agent; it is not asked again.
        """
        if command in self._unsupported:
            raise NotSupported(NOT_SUPPORTED)
        # Drivers find their tools and settings where the agent does.
        program = Command(str(self._program), (command, *arguments), dict(os.environ), may_leave_children=True)
        try:
            finished = await self._run(program, b"", LIMITS)
        except TimeoutError:
            raise VolumeError(f"{command} of driver {self.name} took more than {LIMITS.seconds:.0f} s") from None
        except OSError as error:
            raise VolumeError(f"driver {self.name} cannot be run: {error.strerror or error}") from error
        return self._answer(command, finished)

    def _answer(self, command: str, finished: CommandResult) -> dict[str, Any]:
        if finished.output is None:
            raise VolumeError(f"{command} of driver {self.name} wrote more than {LIMITS.output_bytes} bytes")
        # Failures stand on standard error in many drivers.
        answer = _parsed(finished.output) or _parsed(finished.errors)
        if answer is None:
            raise VolumeError(f"{command} of driver {self.name} gave no answer in JSON (exit code {finished.code})")
        status = answer.get("status")
        if status == NOT_SUPPORTED:
            self._unsupported.add(command)
            raise NotSupported(NOT_SUPPORTED)
        if status != SUCCESS:
            reason = _line(answer.get("message", ""))
            raise VolumeError(f"{command} command failed, status: {_line(status)}, reason: {reason}")
        if finished.code != 0:
            raise VolumeError(f"{command} of driver {self.name} ended with exit code {finished.code}")
        return answer


_LONGEST_MESSAGE = 500


def text(answer: dict[str, Any], key: str) -> str:
    """Return a text of an answer, empty where it is none."""
    value = answer.get(key)
    return value if isinstance(value, str) else ""


def _parsed(output: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return {key.lower(): value for key, value in answer.items()} if isinstance(answer, dict) else None


def _line(value: object) -> str:
    """Return what a driver wrote as a part of one line: events and logs take no control characters."""
    shown = "".join(char if char.isprintable() else " " for char in str(value))
    return shown if len(shown) <= _LONGEST_MESSAGE else f"{shown[:_LONGEST_MESSAGE]}…"
