"""Running pod workers."""

import pytest

from tests.unit.podworker.harness import Harness, living


@pytest.fixture
async def harness(clock):
    async with living(Harness(clock)) as built:
        yield built
