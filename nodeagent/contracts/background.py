"""Background loops of plugins."""

from __future__ import annotations

from typing import Protocol


class BackgroundLoop(Protocol):
    """A loop that the agent starts once the runtime has responded, and cancels and awaits on shutdown."""

    name: str

    async def run(self) -> None:
        """Run until cancelled.

        If it raises or returns, the agent logs the plugin's name and restarts it with a back-off.

        :raises Exception: any error; the loop is restarted.
        """
        ...
