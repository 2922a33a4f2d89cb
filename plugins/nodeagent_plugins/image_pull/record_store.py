"""Files with records of image pulls, in ``image_manager`` of the root directory. All methods read or write the disk."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from nodeagent.base.atomic_file import write_private
from nodeagent.base.metrics import Gauge
from nodeagent_plugins.image_pull.pull_records import (
    PulledRecord,
    RecordError,
    decode_intent,
    decode_pulled,
    encode_intent,
    encode_pulled,
)

T = TypeVar("T")

_log = logging.getLogger(__name__)

INTENTS = Gauge("imagemanager_ondisk_pullintents", "Number of ImagePullIntents stored on disk.")
PULLED = Gauge("imagemanager_ondisk_pulledrecords", "Number of ImagePulledRecords stored on disk.")

_PREFIX, _TEMPORARY = "sha256-", ".tmp"


class RecordStore:
    """Records of image pulls on disk.

    :param root: the root directory of the agent.
    """

    def __init__(self, root: Path) -> None:
        self._pulling, self._pulled = root / "image_manager" / "pulling", root / "image_manager" / "pulled"

    def create(self) -> None:
        """Create the directories and count their files.

        :raises OSError: a directory cannot be created.
        """
        for directory in (self._pulling.parent, self._pulling, self._pulled):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._count()

    def add_intent(self, image: str) -> None:
        """Record that *image* is being pulled.

        :raises OSError: the record cannot be written.
        """
        write_private(self._pulling / _file_name(image), encode_intent(image))
        self._count()

    def remove_intent(self, image: str) -> None:
        """Remove the intent of *image*, if there is one.

        :raises OSError: the file cannot be removed.
        """
        (self._pulling / _file_name(image)).unlink(missing_ok=True)
        self._count()

    def has_intent(self, image: str) -> bool:
        """Return whether there is an intent of *image*.

        :raises OSError: the file cannot be read.
        :raises RecordError: the file is invalid.
        """
        try:
            return decode_intent((self._pulling / _file_name(image)).read_bytes()) == image
        except FileNotFoundError:
            return False

    def intents(self) -> list[str]:
        """Return the images of all intents; an invalid file is logged."""
        return list(self._read_all(self._pulling, decode_intent))

    def read(self, ref: str) -> PulledRecord | None:
        """Return the record of the image with the ID *ref*, or ``None`` if there is none.

        :raises OSError: the file cannot be read.
        :raises RecordError: the file is invalid.
        """
        try:
            record = decode_pulled((self._pulled / _file_name(ref)).read_bytes())
        except FileNotFoundError:
            return None
        return record if record.ref == ref else None

    def write(self, record: PulledRecord) -> None:
        """Create or replace a record.

        :raises OSError: the record cannot be written.
        """
        write_private(self._pulled / _file_name(record.ref), encode_pulled(record))
        self._count()

    def records(self) -> list[PulledRecord]:
        """Return all records; an invalid file is logged."""
        return list(self._read_all(self._pulled, decode_pulled))

    def remove(self, ref: str) -> None:
        """Remove the record of the image with the ID *ref*, if there is one.

        :raises OSError: the file cannot be removed.
        """
        (self._pulled / _file_name(ref)).unlink(missing_ok=True)
        self._count()

    def _read_all(self, directory: Path, decode: Callable[[bytes], T]) -> Iterator[T]:
        for file in _files(directory):
            try:
                yield decode(file.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, RecordError) as error:
                _log.warning("Failed to read image pull record", extra={"path": str(file), "err": str(error)})

    def _count(self) -> None:
        INTENTS.set(len(_files(self._pulling)))
        PULLED.set(len(_files(self._pulled)))


def _files(directory: Path) -> list[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return []
    return [
        entry for entry in entries if entry.name.startswith(_PREFIX) and entry.suffix != _TEMPORARY and entry.is_file()
    ]


def _file_name(name: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(name.encode()).hexdigest()}"
