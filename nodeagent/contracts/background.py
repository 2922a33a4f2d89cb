"""Background loops of plugins."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class BackgroundLoop(Protocol):
    """A loop that the agent starts once the runtime has responded, and cancels and awaits on shutdown."""

    name: str

    async def run(self) -> None:
        """Run until cancelled.

        If it raises or returns, the agent logs the plugin's name and restarts it with a back-off.

        :raises Exception: any error; the loop is restarted.
        """
        ...


@runtime_checkable
class CheckedLoop(BackgroundLoop, Protocol):
    """A loop whose failure is that of a check of ``/healthz``."""

    health_check: str
    """Name of the check."""
    failure: str
    """Start of the error message while the loop does not run."""
