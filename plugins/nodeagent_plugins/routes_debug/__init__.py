"""Profiles of the agent and its log verbosity: ``/debug/pprof/*`` and ``/debug/flags/v``.

spec: config.enableProfilingHandler, config.enableDebugFlagsHandler, config.enableContentionProfiling
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import ConfigContext
from nodeagent.contracts.server import Exposure, Route

if TYPE_CHECKING:
    from nodeagent.base.profiling.contention import ContentionProfile
    from nodeagent.contracts.hooks import PluginHost

MAX_SECONDS = 300.0
"""Maximum duration of a profile."""


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    plugins.register(Debugging(context), name="routes_debug.paths")


class Debugging:
    """Routes of the profiler and the background loop of the contention profile."""

    def __init__(self, context: ConfigContext) -> None:
        self._context = context
        self._contention = _contention(context)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return () if self._contention is None else (self._contention,)

    @hookimpl
    def nodeagent_provide_routes(self) -> Sequence[Route]:
        return debug_routes(self._context, self._contention)


def debug_routes(context: ConfigContext, contention: ContentionProfile | None) -> Sequence[Route]:
    """Return the routes; without *contention* the block profile is empty."""
    from nodeagent.base.profiling.profiles import Profiles
    from nodeagent_plugins.routes_debug.flags import set_verbosity
    from nodeagent_plugins.routes_debug.handlers import ProfileHandler, index, symbol, to_index

    config = context.config
    profiles = ProfileHandler(Profiles(contention, max_seconds=MAX_SECONDS))
    no_profiling = "" if config.enable_profiling_handler else "profiling endpoint is disabled."
    no_flags = "" if config.enable_debug_flags_handler else "flags endpoint is disabled."
    return (
        Route("GET", "/debug/pprof", to_index, Exposure.DEBUG, rejection=no_profiling),
        Route("GET", "/debug/pprof/", index, Exposure.DEBUG, rejection=no_profiling),
        Route("GET", "/debug/pprof/symbol", symbol, Exposure.DEBUG, rejection=no_profiling),
        Route("POST", "/debug/pprof/symbol", symbol, Exposure.DEBUG, rejection=no_profiling),
        Route("GET", "/debug/pprof/{profile}", profiles.handle, Exposure.DEBUG, rejection=no_profiling),
        Route("*", "/debug/flags/v", set_verbosity, Exposure.DEBUG_HIDDEN, rejection=no_flags),
    )


def _contention(context: ConfigContext) -> ContentionProfile | None:
    config = context.config
    if not (
        config.enable_contention_profiling and config.enable_debugging_handlers and config.enable_profiling_handler
    ):
        return None
    from nodeagent.base.profiling.contention import ContentionProfile

    return ContentionProfile()
