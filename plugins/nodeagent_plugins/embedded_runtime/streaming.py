"""Exec, attach and port forwarding as streams."""

from __future__ import annotations

from typing import Any

from nodeagent_plugins.embedded_runtime.errors import NotOffered


class StreamingServer:
    """Offers nothing yet but a clear answer."""

    async def offer(self, kind: str, _request: Any) -> str:
        raise NotOffered(f"{kind} as a stream is not offered by this runtime")
