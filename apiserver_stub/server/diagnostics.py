"""Diagnostics: profiles, their debug socket, and traces."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from apiserver_stub.options import Options
from apiserver_stub.server import debug_socket
from apiserver_stub.telemetry.tracing import Tracing, load_config
from nodeagent.base.aio import TaskOwner
from nodeagent.base.profiling.contention import ContentionProfile
from nodeagent.base.profiling.profiles import Profiles
from nodeagent.base.structs import Struct

_MAX_PROFILE_SECONDS = 300


class Diagnostics(Struct, frozen=True):
    """Profiles and, if configured, traces."""

    profiles: Profiles
    tracing: Tracing | None


async def start_diagnostics(options: Options, tasks: TaskOwner, stack: AsyncExitStack) -> Diagnostics:
    """Return the configured diagnostics; *stack* closes them.

    :raises TracingError: the tracing configuration is invalid.
    :raises OSError: the debug socket cannot be opened.
    """
    contention = _contention_profile(options)
    if contention is not None:
        tasks.start(contention.run(), "contention-profile")
    profiles = Profiles(contention, max_seconds=min(_MAX_PROFILE_SECONDS, options.request_timeout_seconds))
    if options.debug_socket_path is not None:
        await debug_socket.serve(profiles, options.identity, options.debug_socket_path, stack)
    tracing = None
    if options.tracing_config_file is not None and options.gates.enabled("APIServerTracing"):
        tracing = Tracing(await asyncio.to_thread(load_config, options.tracing_config_file, options.identity))
        stack.push_async_callback(tracing.close)
    return Diagnostics(profiles, tracing)


def _contention_profile(options: Options) -> ContentionProfile | None:
    if options.contention_profiling and (options.profiling or options.debug_socket_path is not None):
        return ContentionProfile()
    return None
