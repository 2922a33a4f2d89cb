"""Execution of the host commands that the runtime requires."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence

from nodeagent_plugins.embedded_runtime.errors import CallError

MAX_TEXT = 1000


async def run(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
    """Run *command* with *given* as its input and return its output.

    :param attempt: description for the error text.
    :raises CallError: the command failed or timed out.
    """
    return await asyncio.to_thread(run_now, command, attempt, given=given, timeout_seconds=timeout_seconds)


def run_now(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
    """Blocking variant of :func:`run`."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", timeout=timeout_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CallError(f"{attempt}: timed out after {timeout_seconds:g} s") from error
    except OSError as error:
        raise CallError(f"{attempt}: {error}") from error
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip())[-MAX_TEXT:]
        raise CallError(f"{attempt}: {output or f'{command[0]} exited with code {done.returncode}'}")
    return done.stdout
