"""Gets images from registries into the store."""

from __future__ import annotations

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.builtin import BUILTIN_REGISTRY
from nodeagent_plugins.embedded_runtime.images.names import parse_name
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore

from nodeagent.base.criproto import api_pb2 as cri


class Puller:
    """Pulls images."""

    def __init__(self, images: ImageStore, insecure: list[str]) -> None:
        self._images, self._insecure = images, insecure

    async def close(self) -> None:
        """Close connections."""

    async def pull(self, text: str, auth: cri.AuthConfig) -> Image:
        name = parse_name(text)
        known = self._images.find(str(name))
        if known is not None and (known.pinned or name.registry == BUILTIN_REGISTRY):
            return known
        raise CallError(f"pull image {text}: not there")
