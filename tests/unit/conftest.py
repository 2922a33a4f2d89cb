"""Directories of unit tests: in memory, as the product syncs what it stores."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory import memory_directory


@pytest.fixture(scope="session")
def unit_path(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directory of all unit tests, in memory unless ``--basetemp`` is given."""
    memory = memory_directory()
    is_worker = hasattr(pytestconfig, "workerinput")  # A worker of xdist always has a base directory.
    if memory is None or (pytestconfig.option.basetemp is not None and not is_worker):
        yield tmp_path_factory.mktemp("unit")
        return
    with tempfile.TemporaryDirectory(prefix="nodeagent-unit-", dir=memory, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def tmp_path(unit_path: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=unit_path))
    yield path
    shutil.rmtree(path, ignore_errors=True)
