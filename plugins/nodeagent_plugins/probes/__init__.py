"""Liveness, readiness and startup probes of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent_plugins.probes.prober import ProbeManager

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext
    from nodeagent.contracts.probes import Prober


@hookimpl
def nodeagent_provide_prober(context: AgentContext) -> Prober:
    return ProbeManager(context)
