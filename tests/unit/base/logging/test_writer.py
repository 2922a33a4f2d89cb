"""Tests for the log writer: order, bounded queue, buffering, closing."""

from __future__ import annotations

import io
import threading

import pytest

from nodeagent.base.logging import StreamOptions
from nodeagent.base.logging.writer import ERROR_RESERVE_BYTES, MAX_QUEUE_BYTES, LineBuffer, LineWriter


class Recorder(io.BytesIO):
    """Stream that records each write, blocks until it is opened and fails while it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.seen = threading.Condition()
        self.open = threading.Event()
        self.open.set()
        self.broken = False

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        self.open.wait(30)
        if self.broken:
            raise OSError(28, "No space left on device")
        with self.seen:
            self.writes.append(bytes(data))
            self.seen.notify_all()
        return len(data)

    def wait_for(self, count: int) -> bool:
        with self.seen:
            return self.seen.wait_for(lambda: len(self.writes) >= count, 30)


def gap(count: int) -> bytes:
    return b"%d left out\n" % count


@pytest.fixture
def stream():
    return Recorder()


@pytest.fixture
def writer(stream):
    made = LineWriter(stream, gap_line=gap)
    yield made
    stream.open.set()
    made.close()


def test_writes_lines_in_order(writer, stream):
    for number in range(100):
        writer.write(b"%d\n" % number)

    assert writer.flush()
    assert b"".join(stream.writes) == b"".join(b"%d\n" % number for number in range(100))


def test_close_writes_the_remaining_lines_and_stops_the_thread(stream):
    writer = LineWriter(stream, gap_line=gap, buffer_bytes=1000, flush_seconds=3600)
    writer.write(b"last\n")

    writer.close()

    assert stream.writes == [b"last\n"]
    assert not [thread for thread in threading.enumerate() if thread.name == "log-writer"]


def test_blocked_reader_does_not_block_the_caller(writer, stream):
    stream.open.clear()

    for _ in range(3):
        writer.write(b"x" * (MAX_QUEUE_BYTES // 2))

    assert writer.dropped == 1
    assert not writer.flush(timeout_seconds=0)


def test_dropped_lines_are_reported_once_the_reader_recovers(writer, stream):
    stream.open.clear()
    for _ in range(4):
        writer.write(b"x" * (MAX_QUEUE_BYTES // 2))

    stream.open.set()
    writer.flush()
    writer.write(b"after\n")
    writer.flush()

    written = b"".join(stream.writes)
    assert written.count(b"2 left out\n") == 1
    assert written.endswith(b"after\n")


def test_errors_are_accepted_by_a_full_queue(writer, stream):
    stream.open.clear()
    writer.write(b"x" * MAX_QUEUE_BYTES)

    writer.write(b"info\n")
    writer.write(b"error\n", important=True)
    stream.open.set()
    writer.flush()

    written = b"".join(stream.writes)
    assert b"error\n" in written
    assert b"info\n" not in written


def test_reserve_for_errors_is_bounded(writer, stream):
    stream.open.clear()
    writer.write(b"x" * MAX_QUEUE_BYTES)
    writer.write(b"x" * ERROR_RESERVE_BYTES, important=True)

    writer.write(b"one too many\n", important=True)

    assert writer.dropped == 1


def test_lines_lost_on_a_full_disk_are_reported(writer, stream):
    stream.broken = True
    writer.write(b"lost\n")
    writer.flush()

    stream.broken = False
    writer.write(b"kept\n")
    writer.flush()

    assert stream.writes == [b"kept\n", b"1 left out\n"]


def test_descriptor_made_non_blocking_loses_no_lines():
    class Stuttering(Recorder):
        turn = 0

        def write(self, data):
            self.turn += 1
            if self.turn == 1:
                return None
            if self.turn == 2:
                super().write(data[:2])
                raise BlockingIOError(11, "would block", 2)
            return super().write(data[:1])

    stream = Stuttering()
    writer = LineWriter(stream, gap_line=gap)
    writer.write(b"line\n")
    writer.close()

    assert b"".join(stream.writes) == b"line\n"


@pytest.mark.row("type.JSONOptions.infoBufferSize")
def test_lines_are_buffered_until_the_buffer_is_full():
    buffer = LineBuffer(10, flush_seconds=5)

    buffer.add(b"1234", now=0)
    early = buffer.take(now=1)
    buffer.add(b"567890", now=1)

    assert (early, buffer.take(now=1)) == (b"", b"1234567890")


@pytest.mark.row("type.JSONOptions.infoBufferSize")
def test_line_is_written_immediately_without_a_buffer_size():
    buffer = LineBuffer(0, flush_seconds=5)

    buffer.add(b"1", now=0)

    assert buffer.take(now=0) == b"1"


@pytest.mark.row("type.LoggingConfiguration.flushFrequency")
def test_oldest_line_waits_at_most_the_flush_frequency():
    buffer = LineBuffer(1000, flush_seconds=5)
    buffer.add(b"1", now=10)
    buffer.add(b"2", now=14)

    assert buffer.due_at == 15
    assert (buffer.take(now=14.9), buffer.take(now=15)) == (b"", b"12")
    assert buffer.due_at is None


@pytest.mark.row("type.LoggingConfiguration.flushFrequency", "type.JSONOptions.infoBufferSize")
def test_buffered_lines_are_written_after_the_flush_frequency(streams, stream):
    import logging

    from nodeagent.base.logging import LoggingOptions

    log = logging.getLogger(__name__)
    streams.options = LoggingOptions(error_stream=streams.err, info_stream=stream)
    streams.configure(
        format="json", flush_seconds=0.05, json=StreamOptions(split_stream=True, info_buffer_bytes=1_000_000)
    )

    log.info("one")

    assert stream.wait_for(1)


def test_error_flushes_the_buffered_lines(streams, stream):
    import logging

    from nodeagent.base.logging import LoggingOptions

    log = logging.getLogger(__name__)
    streams.options = LoggingOptions(error_stream=streams.err, info_stream=stream)
    streams.configure(
        format="json", flush_seconds=3600, json=StreamOptions(split_stream=True, info_buffer_bytes=1_000_000)
    )

    log.info("what led to it")
    log.error("it")

    assert stream.wait_for(1)
    assert b"what led to it" in stream.writes[0]
