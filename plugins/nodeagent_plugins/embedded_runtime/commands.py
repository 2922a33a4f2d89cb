"""Runs the programs of the machine that the runtime needs."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence

from nodeagent_plugins.embedded_runtime.errors import CallError

MAX_TEXT = 1000


async def run(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
    """Run *command* with *given* as its input and return what it prints.

    :param attempt: what this tries, for the error's text.
    :raises CallError: it failed or took too long.
    """
    return await asyncio.to_thread(run_now, command, attempt, given=given, timeout_seconds=timeout_seconds)


def run_now(command: Sequence[str], attempt: str, *, given: str = "", timeout_seconds: float = 60.0) -> str:
    """As :func:`run`, holding up the caller."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", timeout=timeout_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CallError(f"{attempt}: not done within {timeout_seconds:g} s") from error
    except OSError as error:
        raise CallError(f"{attempt}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-MAX_TEXT:]
        raise CallError(f"{attempt}: {said or f'{command[0]} ended with {done.returncode}'}")
    return done.stdout
