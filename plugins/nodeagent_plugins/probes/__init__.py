"""Liveness, readiness and startup probes of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent_plugins.probes.prober import ProbeManager

if TYPE_CHECKING:
    from nodeagent.contracts.context import PullerContext
    from nodeagent.contracts.probes import Prober


@hookimpl
def nodeagent_provide_prober(context: PullerContext) -> Prober:
    return ProbeManager(context)
