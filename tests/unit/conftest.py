"""Directory of a unit test: in memory, as the product syncs what it stores, and a busy disk needs long for that."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 256 << 20


@pytest.fixture(scope="session")
def unit_path(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directory of all unit tests: in memory, unless it is small or executes no files, or ``--basetemp`` is given."""
    if pytestconfig.option.basetemp is not None or not _is_usable(_MEMORY):
        yield tmp_path_factory.mktemp("unit")
        return
    with tempfile.TemporaryDirectory(prefix="nodeagent-unit-", dir=_MEMORY, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def tmp_path(unit_path: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=unit_path))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _is_usable(directory: Path) -> bool:
    if not os.access(directory, os.W_OK):
        return False
    file_system = os.statvfs(directory)
    free = file_system.f_bavail * file_system.f_frsize
    return free >= _MEMORY_BYTES and not file_system.f_flag & os.ST_NOEXEC
