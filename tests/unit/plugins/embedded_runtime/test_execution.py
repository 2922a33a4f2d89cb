"""Tests for the output of commands in containers."""

from __future__ import annotations

from nodeagent_plugins.embedded_runtime.execution import MAX_OUTPUT_BYTES, _collect, _Collected


class Endless:
    """Output that is longer than any limit."""

    def __init__(self) -> None:
        self.left = 4 * MAX_OUTPUT_BYTES

    async def read(self, size: int) -> bytes:
        data = b"x" * min(size, self.left)
        self.left -= len(data)
        return data


async def test_output_beyond_the_limit_is_dropped() -> None:
    collected, stream = _Collected(), Endless()

    await _collect(stream, collected)  # type: ignore[arg-type]

    assert len(collected.data) == MAX_OUTPUT_BYTES // 2
    assert stream.left == 0  # The command is never blocked by a full pipe.
