"""Fixtures: a registry with authentication, and credential providers for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.credential_exec.providers import Providers
from tests.integration.credential_exec.registry import Registry

USERS = {"alice": "wonderland-1865", "bob": "builder-1999"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry") / "htpasswd", USERS) as running:
        yield running


@pytest.fixture
def providers(tmp_path: Path) -> Providers:
    return Providers(tmp_path)
