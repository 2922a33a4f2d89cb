"""Tests for the audit log file: mode, rotation and limits of backups."""

from __future__ import annotations

import errno
import gzip
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apiserver_stub.audit.log_file import LogFile, Rotation
from apiserver_stub.audit.policy import AuditError

LINE = b"x" * 700_000 + b"\n"


class Calendar:
    def __init__(self) -> None:
        self.day = datetime(2024, 5, 1, 12, 30, 45, 123000, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.day


async def write(file: LogFile, *records: bytes) -> None:
    await file.write(records)
    await file.close()


async def test_full_file_is_rotated_with_a_timestamp(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "audit.log"), rotation=Rotation(max_mib=1), now=Calendar())

    await write(file, LINE, LINE, LINE)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "audit-2024-05-01T12-30-45.123.log",
        "audit-2024-05-01T12-30-45.124.log",
        "audit.log",
    ]
    assert all(path.read_bytes() == LINE and path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


async def test_file_may_have_exactly_the_maximum_size(tmp_path: Path) -> None:
    log, size = tmp_path / "audit.log", 1 << 20
    file = LogFile(str(log), rotation=Rotation(max_mib=1), now=Calendar())

    await write(file, b"a" * (size - 10), b"b" * 10)

    assert [path.name for path in tmp_path.iterdir()] == ["audit.log"]
    assert log.stat().st_size == size


async def test_record_of_exactly_the_maximum_size_is_written(tmp_path: Path) -> None:
    log, size = tmp_path / "audit.log", 1 << 20
    log.write_bytes(b"a")

    await write(LogFile(str(log), rotation=Rotation(max_mib=1), now=Calendar()), b"b" * size)

    assert log.read_bytes() == b"b" * size


async def test_files_that_are_no_backups_are_kept(tmp_path: Path) -> None:
    stamp = "2024-01-01T00-00-00.000"
    others = {f"other-{stamp}.log", f"audit-{stamp}.txt", "audit-old.log", f"{stamp}.log"}
    for name in others:
        (tmp_path / name).touch()
    rotation = Rotation(max_mib=1, max_age_days=1, max_backups=1)

    await write(LogFile(str(tmp_path / "audit.log"), rotation=rotation, now=Calendar()), LINE, LINE)

    assert others < {path.name for path in tmp_path.iterdir()}


@pytest.mark.row("opt.audit-log-maxage")
async def test_backups_beyond_the_maximum_age_are_deleted(tmp_path: Path) -> None:
    calendar, log = Calendar(), tmp_path / "audit.log"
    for age in (20, 8, 6, 0):
        calendar.day = datetime(2024, 5, 30, tzinfo=UTC) - timedelta(days=age)
        file = LogFile(str(log), rotation=Rotation(max_mib=1, max_age_days=0 if age else 7), now=calendar)
        await write(file, LINE, LINE)

    kept = sorted(path.name[6:16] for path in tmp_path.iterdir() if path != log)
    assert set(kept) == {"2024-05-24", "2024-05-30"}


async def test_excess_backups_are_deleted_and_others_compressed(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    rotation = Rotation(max_mib=1, max_backups=2, compress=True)
    file = LogFile(str(log), rotation=rotation, now=Calendar())

    await write(file, *[LINE] * 5)

    kept = [path for path in tmp_path.iterdir() if path != log]
    assert sorted(path.suffix for path in kept) == [".gz", ".gz"]
    assert all(gzip.decompress(path.read_bytes()) == LINE for path in kept)


@pytest.mark.row("opt.audit-log-maxbackup")
async def test_new_limits_apply_from_the_first_line(tmp_path: Path) -> None:
    log, calendar = tmp_path / "audit.log", Calendar()
    await write(LogFile(str(log), rotation=Rotation(max_mib=1), now=calendar), LINE, LINE, LINE)

    await write(LogFile(str(log), rotation=Rotation(max_backups=1, compress=True), now=calendar), b"x\n")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit-2024-05-01T12-30-45.124.log.gz", "audit.log"]


async def test_existing_content_is_kept_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    await write(LogFile(str(log), rotation=Rotation(max_mib=1)), LINE)
    await write(LogFile(str(log), rotation=Rotation(max_mib=1)), b"more\n")
    assert log.read_bytes() == LINE + b"more\n"
    await write(LogFile(str(log), rotation=Rotation(max_mib=1)), LINE)
    assert log.read_bytes() == LINE


async def test_line_larger_than_the_file_limit_is_rejected(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "audit.log"), rotation=Rotation(max_mib=1))
    with pytest.raises(AuditError, match="exceeds maximum file size"):
        await file.write([LINE * 2])
    await file.close()


async def test_partial_line_on_a_full_disk_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "audit.log"
    file = LogFile(str(log))
    await file.write([b"first\n"])
    real, calls = os.write, []

    def full(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) == 1:
            return real(descriptor, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(AuditError, match="No space left"):
        await file.write([b"second\n"])
    monkeypatch.undo()
    await file.write([b"third\n"])
    await file.close()

    assert log.read_bytes() == b"first\nthird\n"


@pytest.mark.row("opt.audit-log-path")
async def test_dash_is_standard_output(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    await write(LogFile("-", rotation=Rotation(max_mib=1)), b"line\n", LINE, LINE)

    assert capfd.readouterr().out == "line\n" + 2 * LINE.decode()


@pytest.mark.parametrize("path", ["", "audit.log"])
async def test_error_names_the_file_or_standard_output(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    name = str(tmp_path / path) if path else "-"
    file = LogFile(name)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(AuditError) as error:
        await file.write([LINE])
    monkeypatch.undo()
    await file.close()

    assert str(error.value) == f"{name if path else 'standard output'}: No space left on device"
