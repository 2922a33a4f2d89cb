"""Audit sink that writes lines to a rotated file or to standard output.

Custom, since ``RotatingFileHandler`` numbers rotated files and does not limit their age.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apiserver_stub.audit import event as events
from apiserver_stub.audit.event import Event
from apiserver_stub.audit.policy import AuditError
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

STDOUT = "-"
_MIB = 1 << 20
_DEFAULT_MAX_MIB = 100
_STAMP = "%Y-%m-%dT%H-%M-%S"


class Rotation(Struct, frozen=True):
    """Rotation limits; 0 means 100 MiB for *max_mib* and no limit for the other settings."""

    max_mib: int = 0
    max_age_days: int = 0
    max_backups: int = 0
    compress: bool = False

    @property
    def max_bytes(self) -> int:
        return (self.max_mib or _DEFAULT_MAX_MIB) * _MIB


class LogFile:
    """Audit sink that appends to *path*, created if it is missing, with its directories, readable only by the owner.

    :raises AuditError: the file cannot be opened.
    """

    plugin = "log"
    parallel = False

    def __init__(
        self,
        path: str,
        *,
        legacy: bool = False,
        rotation: Rotation | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = None if path == STDOUT else Path(path)
        self._rotation, self._now = rotation or Rotation(), now
        self.encode: Callable[[Event], bytes] = events.legacy_line if legacy else events.encode
        self._size = 0
        self._clearing: asyncio.Task[None] | None = None
        self._due = False
        """Files were rotated since the limits were last applied."""
        self._descriptor = self._open()

    async def write(self, records: Sequence[bytes]) -> None:
        """Write lines; a line that was written only in part is truncated from the file.

        :raises AuditError: at least one line was not written.
        """
        rotated = await asyncio.to_thread(self._write, records)
        if rotated or self._clearing is None:  # The limits may have changed since the last start.
            self._due = self._path is not None
            if self._clearing is None or self._clearing.done():
                self._clearing = asyncio.create_task(self._clear_while_due(), name="audit/rotation")

    async def close(self) -> None:
        if self._clearing is not None:
            await asyncio.gather(self._clearing, return_exceptions=True)
        if self._path is not None:
            os.close(self._descriptor)

    def _write(self, records: Sequence[bytes]) -> bool:
        limit = self._rotation.max_bytes
        rotated = False
        block: list[bytes] = []
        size = 0
        try:
            for record in records:
                if self._path is not None and self._size + size + len(record) > limit:
                    if len(record) > limit:
                        raise AuditError(f"write length {len(record)} exceeds maximum file size {limit}")
                    self._append(b"".join(block))
                    block, size = [], 0
                    if self._size:
                        self._rotate()
                        rotated = True
                block.append(record)
                size += len(record)
            self._append(b"".join(block))
        except OSError as error:
            raise AuditError(f"{self._path or 'standard output'}: {error.strerror or error}") from error
        return rotated

    def _append(self, data: bytes) -> None:
        remaining = memoryview(data)
        try:
            while remaining:
                remaining = remaining[os.write(self._descriptor, remaining) :]
        except OSError:
            if self._path is not None and len(remaining) != len(data):
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def _open(self) -> int:
        if self._path is None:
            return sys.stdout.fileno()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AuditError(f"open {self._path}: {(error.strerror or str(error)).lower()}") from error
        self._size = os.fstat(descriptor).st_size
        return descriptor

    def _rotate(self) -> None:
        assert self._path is not None
        now = self._now()
        while (backup := self._backup_path(now)).exists() or backup.with_name(backup.name + ".gz").exists():
            now += timedelta(milliseconds=1)
        self._path.rename(backup)
        descriptor = self._open()
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _backup_path(self, now: datetime) -> Path:
        assert self._path is not None
        stamp = f"{now.astimezone(UTC):{_STAMP}}.{now.microsecond // 1000:03}"
        return self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")

    async def _clear_while_due(self) -> None:
        while self._due:
            self._due = False
            await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        """Remove rotated files that exceed the number or the age limit, and compress the others."""
        rotation = self._rotation
        try:
            backups = sorted(self._backups(), reverse=True)
            kept = backups[: rotation.max_backups or None]
            if rotation.max_age_days:
                oldest = self._now() - timedelta(days=rotation.max_age_days)
                kept = [item for item in kept if item[0] >= oldest]
            for item in backups:
                if item not in kept:
                    item[1].unlink(missing_ok=True)
            for _, path in kept:
                if rotation.compress and path.suffix != ".gz":
                    _compress(path)
        except OSError as error:
            _log.error("Failed to remove old audit log files", extra={"path": str(self._path), "err": error})

    def _backups(self) -> list[tuple[datetime, Path]]:
        assert self._path is not None
        backups = []
        prefix, suffix = f"{self._path.stem}-", self._path.suffix
        for path in self._path.parent.iterdir():
            name = path.name.removesuffix(".gz")
            if name.startswith(prefix) and name.endswith(suffix):
                with contextlib.suppress(ValueError):
                    stamp = name.removeprefix(prefix).removesuffix(suffix)
                    backups.append((datetime.strptime(stamp, f"{_STAMP}.%f").replace(tzinfo=UTC), path))
        return backups


def _compress(path: Path) -> None:
    target = path.with_name(path.name + ".gz")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with path.open("rb") as source, os.fdopen(descriptor, "wb") as raw, gzip.open(raw, "wb") as compressed:
            shutil.copyfileobj(source, compressed)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    path.unlink()
