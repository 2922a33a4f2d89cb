"""Tests for the offset of the last lines."""

from __future__ import annotations

import os
import tempfile

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
