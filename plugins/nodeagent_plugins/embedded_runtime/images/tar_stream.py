"""Tar files read as a stream, with bounded memory and disk space whatever their headers state."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from nodeagent_plugins.embedded_runtime.errors import CallError

MAX_HEADER_BYTES = 1 << 20
"""Limit of the headers of one file: names, extended attributes and the map of a sparse file."""
RESERVED_BYTES, RESERVED_FILES = 256 << 20, 1000
"""Free disk space below which nothing is extracted."""
_COPY_BYTES, _CHECK_BYTES, _CHECK_FILES = 1 << 20, 64 << 20, 256
_INVALID = (tarfile.TarError, EOFError, ValueError, ArithmeticError, LookupError, struct.error, zlib.error)


class TarStream:
    """Files of the tar data in *source*, which are extracted below *target*.

    :param what: description for errors.
    """

    def __init__(self, source: IO[bytes], target: Path, what: str) -> None:
        self._source, self._target, self._what = source, target, what
        self._hash = hashlib.sha256()
        self._headers_left: int | None = MAX_HEADER_BYTES
        self._files = 0

    @property
    def digest(self) -> str:
        """Digest of the data that was read."""
        return f"sha256:{self._hash.hexdigest()}"

    def read(self, size: int = -1) -> bytes:
        """Read data, for :mod:`tarfile`."""
        data = self._source.read(size)
        if self._headers_left is not None:
            self._headers_left -= len(data)
            if self._headers_left < 0:
                raise tarfile.ReadError(f"the headers of a file exceed {MAX_HEADER_BYTES} bytes")
        self._hash.update(data)
        return data

    @contextlib.contextmanager
    def opened(self, compression: str = "") -> Iterator[tarfile.TarFile]:
        """Yield the archive.

        :param compression: of :func:`tarfile.open`.
        :raises CallError: the archive is invalid, or cannot be extracted.
        """
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", self), mode=f"r|{compression}", errorlevel=0) as archive:  # type: ignore[call-overload]
                yield archive
            self._headers_left = None
            while self.read(_COPY_BYTES):  # The digest includes data after the end marker.
                pass
        except _INVALID as error:
            raise CallError(f"{self._what}: {error or type(error).__name__}") from error
        except OSError as error:
            raise CallError(f"unpack {self._what}: {error}") from error

    def members(self, archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        """Yield the files of *archive*; none is kept in memory."""
        while True:
            self._headers_left = MAX_HEADER_BYTES
            member = archive.next()
            if member is None:
                return
            self._headers_left = None
            archive.members.clear()  # type: ignore[attr-defined]
            if member.size < 0:
                raise tarfile.ReadError(f"invalid size of {member.name!r}")
            if self._files % _CHECK_FILES == 0:
                self._check_space()
            self._files += 1
            yield member

    def copy(self, archive: tarfile.TarFile, member: tarfile.TarInfo, file: IO[bytes]) -> None:
        """Write the content of *member* to *file*."""
        content = archive.extractfile(member)
        assert content is not None
        unchecked = 0
        while data := content.read(_COPY_BYTES):
            file.write(data)
            unchecked += len(data)
            if unchecked >= _CHECK_BYTES:
                self._check_space()
                unchecked = 0

    def _check_space(self) -> None:
        about = os.statvfs(self._target)
        if about.f_bavail * about.f_frsize < RESERVED_BYTES or (about.f_files and about.f_favail < RESERVED_FILES):
            raise CallError(f"{self._what}: not enough disk space")
