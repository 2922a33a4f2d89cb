"""Loops of plugins that run as long as the agent."""

from __future__ import annotations

from typing import Protocol


class BackgroundLoop(Protocol):
    """A loop owned by the agent: started after the runtime was reached, cancelled and awaited at stop."""

    name: str

    async def run(self) -> None:
        """Run until cancelled. An error that leaves here is logged with the plugin's name and the loop is started
        again with growing pauses."""
        ...
