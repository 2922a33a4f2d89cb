"""Shutdown check of ``nodeagent doctor``."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.contracts.checks import Finding, NodeCheck, problem
from nodeagent_plugins.shutdown.logind import LogindError
from nodeagent_plugins.shutdown.manager import ShutdownInhibitor


def shutdown_check(inhibitor: ShutdownInhibitor) -> NodeCheck:
    """Return the check that logind can delay a shutdown; it takes no inhibitor lock."""

    async def check() -> Sequence[Finding]:
        try:
            async with inhibitor.session() as session:
                await session.watch()
        except LogindError as error:
            text = f"graceful node shutdown is not available: {error}"
            return [problem(text, "start D-Bus and systemd-logind, or set shutdownGracePeriod: 0s")]
        return []

    return NodeCheck("shutdown", check)
