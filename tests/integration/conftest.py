"""The real parts that integration tests run against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.containerd import Containerd


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """A private containerd for the whole run; a test removes the pods that it made."""
    with Containerd() as daemon:
        yield daemon
