"""Tests for the commands that the runtime executes on the host."""

from __future__ import annotations

import pytest

from nodeagent_plugins.embedded_runtime import commands
from nodeagent_plugins.embedded_runtime.errors import CallError


async def test_output_of_a_command_with_input_is_returned() -> None:
    assert await commands.run(["/bin/cat"], "copy", given="text") == "text"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo out; echo err >&2; exit 3", "err"),
        ("echo out; exit 3", "out"),
        ("exit 3", "/bin/sh exited with code 3"),
    ],
)
def test_failed_command_raises_its_last_output(script: str, reason: str) -> None:
    with pytest.raises(CallError) as caught:
        commands.run_now(["/bin/sh", "-c", script], "add address")

    assert str(caught.value) == f"add address: {reason}"


def test_command_that_does_not_complete_is_reported() -> None:
    with pytest.raises(CallError, match=r"wait: timed out after 0\.01 s"):
        commands.run_now(["/bin/sleep", "60"], "wait", timeout_seconds=0.01)
    with pytest.raises(CallError, match=r"wait: .*No such file"):
        commands.run_now(["/missing"], "wait")
