"""Fixtures of all unit tests: directories in memory, as the product syncs what it stores, and shared parsers."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.tls import generate_ca
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


@pytest.fixture(scope="session", autouse=True)
def one_system_certificate(unit_path: Path) -> Iterator[None]:
    """Replace the certificate authorities of the host by one, as they take longer to load than a test."""
    file = unit_path / "system-ca.crt"
    file.write_bytes(generate_ca("system").certificate)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", str(file))
        environment.setenv("SSL_CERT_DIR", os.devnull)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_parsers() -> list[Any]:
    """Create the parsers of the command lines once instead of for each of thousands of configurations."""
    names = ("apiserver_stub.options.command_line", "nodeagent.config.flags")
    modules: list[Any] = [sys.modules[name] for name in names if name in sys.modules]
    for module in modules:
        module._parser = functools.cache(module._parser)
    return modules


@pytest.fixture
def new_parsers(shared_parsers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the parsers again, as their help texts depend on the installed plugins."""
    for module in shared_parsers:
        monkeypatch.setattr(module, "_parser", module._parser.__wrapped__)
