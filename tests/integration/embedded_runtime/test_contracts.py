"""Contract tests of the embedded runtime and its image service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.testing.contracts import ImageServiceContract, RuntimeContract
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.image_service import CriImageService
from tests.integration.images import BUSYBOX_IMAGE

pytestmark = pytest.mark.integration


class TestRuntime(RuntimeContract):
    @pytest.fixture
    async def runtime(self, cri: CriRuntime) -> CriRuntime:
        return cri

    @pytest.fixture
    def command(self) -> Callable[[str, int | None], dict[str, Any]]:
        def words(_name: str, exit_code: int | None) -> dict[str, Any]:
            script = "exec sleep 1000" if exit_code is None else f"exit {exit_code}"
            return {"image": BUSYBOX_IMAGE, "command": ("sh", "-c", script)}

        return words

    @pytest.fixture
    def log_directory(self, tmp_path: Path) -> str:
        return str(tmp_path / "logs")


class TestImages(ImageServiceContract):
    @pytest.fixture
    async def images(self, cri_images: CriImageService) -> CriImageService:
        return cri_images

    @pytest.fixture
    def present(self) -> str:
        return BUSYBOX_IMAGE
