"""Background loops of plugins."""

from __future__ import annotations

from typing import Protocol


class BackgroundLoop(Protocol):
    """A loop that the agent starts once the runtime has responded, and cancels and awaits on shutdown."""

    name: str

    async def run(self) -> None:
        """Run until cancelled. An exception is logged with the plugin's name, and the loop is restarted with a
        growing back-off."""
        ...
