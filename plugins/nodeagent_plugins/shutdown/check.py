"""What ``nodeagent doctor`` asks of logind where pods shall end in order."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.contracts.checks import Finding, NodeCheck, problem
from nodeagent_plugins.shutdown.logind import LogindError
from nodeagent_plugins.shutdown.manager import ShutdownAuthority


def shutdown_check(authority: ShutdownAuthority) -> NodeCheck:
    """Return the check whether logind is there to hold a shutdown back; it takes no lock."""

    async def look() -> Sequence[Finding]:
        try:
            async with authority.session() as session:
                await session.watch()
        except LogindError as error:
            text = f"pods would not end in order when the machine shuts down: {error}"
            return [problem(text, "start D-Bus and systemd-logind, or set shutdownGracePeriod: 0s to do without")]
        return []

    return NodeCheck("shutdown", look)
