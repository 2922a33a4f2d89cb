"""What every test of the API client starts from."""

from __future__ import annotations

import pytest

from nodeagent.testing.transport import FakeTransport


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()
