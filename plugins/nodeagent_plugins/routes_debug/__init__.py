"""Looking into the agent itself: ``/debug/pprof/*`` and ``/debug/flags/v``.

spec: config.enableProfilingHandler, config.enableDebugFlagsHandler
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.server import Reach, Route


@hookimpl
def nodeagent_provide_routes(context: AgentContext) -> Sequence[Route]:
    from nodeagent_plugins.routes_debug.flags import set_verbosity
    from nodeagent_plugins.routes_debug.handlers import index, profile_named, symbol

    config = context.config
    no_profiling = "" if config.enable_profiling_handler else "profiling endpoint is disabled."
    no_flags = "" if config.enable_debug_flags_handler else "flags endpoint is disabled."
    return (
        Route("GET", "/debug/pprof/", index, Reach.DEBUG, refusal=no_profiling),
        Route("GET", "/debug/pprof/symbol", symbol, Reach.DEBUG, refusal=no_profiling),
        Route("POST", "/debug/pprof/symbol", symbol, Reach.DEBUG, refusal=no_profiling),
        Route("GET", "/debug/pprof/{profile}", profile_named, Reach.DEBUG, refusal=no_profiling),
        Route("*", "/debug/flags/v", set_verbosity, Reach.DEBUG_HIDDEN, refusal=no_flags),
    )
