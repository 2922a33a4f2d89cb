"""Contract suites: what every implementation has to do, as pytest classes to subclass.

Override the fixtures that a suite asks for; its tests then run on the implementation at hand::

    class TestMyRuntime(RuntimeContract):
        @pytest.fixture
        async def runtime(self):
            yield MyRuntime()

Needs pytest and pytest-asyncio (``asyncio_mode = auto``).
"""

# ruff: noqa: E402  suites tell what differs only when they are registered before they are imported
import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{suite}" for suite in ("cgroups", "images", "runtime", "sources", "stats", "volumes"))
)

from nodeagent.testing.contracts.cgroups import CgroupManagerContract
from nodeagent.testing.contracts.images import ImageServiceContract
from nodeagent.testing.contracts.runtime import RuntimeContract
from nodeagent.testing.contracts.sources import FalliblePodSourceContract, PodSourceContract
from nodeagent.testing.contracts.stats import StatsProviderContract
from nodeagent.testing.contracts.volumes import VolumeKindContract

__all__ = [
    "CgroupManagerContract",
    "FalliblePodSourceContract",
    "ImageServiceContract",
    "PodSourceContract",
    "RuntimeContract",
    "StatsProviderContract",
    "VolumeKindContract",
]
