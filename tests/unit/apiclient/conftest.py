"""Fixtures of the tests of the API server client."""

from __future__ import annotations

import pytest

from nodeagent.testing.transport import FakeTransport


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()
