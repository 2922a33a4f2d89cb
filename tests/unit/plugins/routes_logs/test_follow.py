"""Tests for the offset of the last lines."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent_plugins.routes_logs import follow


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"\n")), st.integers(0, 20), st.integers(1, 40))
def test_tail_offset_equals_counting_from_the_start(data, lines, block):
    size_before, follow.BLOCK_BYTES = follow.BLOCK_BYTES, block
    try:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            offset = follow.tail_offset(file.fileno(), lines)
            assert os.fstat(file.fileno()).st_size == len(data)
    finally:
        follow.BLOCK_BYTES = size_before

    whole = data.split(b"\n")
    if whole[-1] == b"":
        whole.pop()
    last_lines = whole[-lines:] if lines else []
    expected = b"\n".join(last_lines) + (b"\n" if data.endswith(b"\n") and last_lines else b"")
    assert data[offset:] == expected


@pytest.mark.parametrize("succeeds", [True, False])
async def test_file_that_opens_after_a_cancellation_is_closed(tmp_path, succeeds):
    released, descriptors, failures = threading.Event(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context["message"]))

    def open_file():
        released.wait(10)
        descriptors.append(os.open(tmp_path, os.O_RDONLY) if succeeds else -1)
        if not succeeds:
            raise FileNotFoundError
        return descriptors[0]

    task = asyncio.create_task(follow.opened(open_file))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    released.set()
    async with asyncio.timeout(10):
        while not descriptors or os.path.exists(f"/proc/self/fd/{descriptors[0]}"):
            await asyncio.sleep(0)
    await asyncio.get_running_loop().shutdown_default_executor()
    for _ in range(5):
        await asyncio.sleep(0)
    assert failures == []
