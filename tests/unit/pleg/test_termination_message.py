"""Tests for reading termination messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.contracts.runtime import (
    ANNOTATION_MESSAGE_PATH,
    ANNOTATION_MESSAGE_POLICY,
    ContainerState,
    Mount,
    RuntimeContainerStatus,
)
from nodeagent.pleg.termination_message import with_message


async def message_of(tmp_path: Path, words: bytes, *, log: bytes = b"", exit_code: int = 1) -> str:
    file, log_file = tmp_path / "words", tmp_path / "0.log"
    file.write_bytes(words)
    log_file.write_bytes(log)
    status = RuntimeContainerStatus(
        id="c",
        name="main",
        attempt=0,
        state=ContainerState.EXITED,
        created_at=1,
        started_at=1,
        finished_at=2,
        exit_code=exit_code,
        image="i",
        image_ref="i",
        log_path=str(log_file),
        annotations={ANNOTATION_MESSAGE_PATH: "/words", ANNOTATION_MESSAGE_POLICY: "FallbackToLogsOnError"},
        mounts=(Mount("/words", str(file)),),
    )
    return (await with_message(status)).message


def line(text: str, tag: str = "F") -> bytes:
    return f"2024-01-02T03:04:05.000000006Z stderr {tag} {text}\n".encode()


async def test_long_message_is_truncated_to_its_end(tmp_path):
    assert await message_of(tmp_path, b"x" * 5000 + b"cause") == "x" * 4091 + "cause"


async def test_message_of_a_successful_container_is_read(tmp_path):
    assert await message_of(tmp_path, b"done", log=line("log"), exit_code=0) == "done"


async def test_message_of_white_space_is_not_replaced_by_the_log(tmp_path):
    assert await message_of(tmp_path, b" \n", log=line("log")) == " \n"


async def test_log_tail_is_used_for_failed_container_without_message(tmp_path):
    log = line("one") + line("par", "P") + line("tial") + line("") + line("last words")
    assert await message_of(tmp_path, b"", log=log) == "one\npartial\n\nlast words"
    assert await message_of(tmp_path, b"said", log=log) == "said"
    assert await message_of(tmp_path, b"", log=log, exit_code=0) == ""


@pytest.mark.parametrize("text", ["y" * 20_000, "word " * 4000])
async def test_long_log_line_is_truncated_to_its_end(tmp_path, text):
    assert await message_of(tmp_path, b"", log=line(text)) == text[-2048:]


async def test_log_tail_is_limited_to_80_lines(tmp_path):
    found = await message_of(tmp_path, b"", log=b"".join(line(str(number)) for number in range(100)))
    assert found.split("\n") == [str(number) for number in range(20, 100)]
