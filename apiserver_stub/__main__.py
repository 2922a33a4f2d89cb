"""Entry point of ``nodeagent-apiserver`` and ``python -m apiserver_stub``."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent.base.extras import missing_extra
from nodeagent.base.malloc import trim_eagerly

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from apiserver_stub.server.key_generation import KeyGeneration

_log = logging.getLogger("apiserver_stub")

_NAME = "nodeagent-apiserver"
EXIT_USAGE = 2
EXIT_FAILED = 1
_GC_THRESHOLDS = (5_000, 5, 3)
"""By default, each group of concurrent requests would start a collection that finds all of their objects in use.

A full collection starts after about as many new objects as by default (70,000).
"""
_SWITCH_SECONDS = 0.0005
_BLOCK_BYTES = 1 << 20
"""Size from which a block of memory is returned when it is freed; most lists are encoded in smaller ones."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server until a signal, or its simulation.

    Return 0, 2 for an invalid command line, or 1 if the server fails to start or the simulation fails.
    """
    if missing := missing_extra(_NAME, "apiserver"):
        sys.stderr.write(f"{missing}\n")
        return EXIT_USAGE
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["simulate"]:
        from apiserver_stub.simulation import command

        return command.main(given[1:])
    gc.disable()  # The start mostly imports modules, which leaves little garbage.
    try:
        return _run(given)
    finally:
        gc.enable()


def _run(given: Sequence[str]) -> int:
    from apiserver_stub.options import OptionsError, parse

    try:
        options = parse(given)
    except OptionsError as error:
        for problem in error.problems:
            sys.stderr.write(f"Error: {problem}\n")
        return EXIT_USAGE
    trim_eagerly(_BLOCK_BYTES)
    from apiserver_stub.server.key_generation import KeyGeneration

    keys = KeyGeneration(options)
    gc.collect()  # Frees 0.7 MiB, such as the parser of the options; there are few objects yet.
    if options.tracing_config_file and (missing := missing_extra(f"{_NAME} --tracing-config-file", "tracing")):
        sys.stderr.write(f"{missing}\n")
        return EXIT_USAGE
    import uvloop

    from nodeagent.base.logging import LoggingError, LoggingSettings, configure, parse_vmodule

    try:
        settings = LoggingSettings(
            flush_seconds=options.log_flush_frequency_seconds,
            verbosity=options.verbosity,
            vmodule=parse_vmodule(options.vmodule),
        )
        logs = configure(settings)
    except LoggingError as error:
        sys.stderr.write(f"Error: {error}\n")
        return EXIT_USAGE
    _allow_connections()
    sys.setswitchinterval(_SWITCH_SECONDS)  # Bounds the delay of the storage thread by the event loop.
    with logs:
        return uvloop.run(_serve(options, keys))


def _allow_connections() -> None:
    """Raise the limit on open files to its maximum: each connection is an open file."""
    import resource

    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


async def _serve(options: Options, keys: KeyGeneration) -> int:
    from apiserver_stub.admission.config import AdmissionError
    from apiserver_stub.audit.policy import AuditError
    from apiserver_stub.egress.selector import EgressError
    from apiserver_stub.options import warnings
    from apiserver_stub.plugins import PluginError
    from apiserver_stub.server.authentication import AuthenticationError
    from apiserver_stub.server.authorization import AuthorizationError
    from apiserver_stub.server.startup import start
    from apiserver_stub.storage import StoreUnavailable
    from apiserver_stub.storage.encryption import EncryptionError
    from apiserver_stub.telemetry.tracing import TracingError
    from nodeagent.base.aio import SystemClock, TaskOwner
    from nodeagent.base.service_manager import ServiceManager
    from nodeagent.base.tls import TlsError

    manager = ServiceManager()
    for warning in warnings(options):
        _log.warning(warning)  # wording: ok
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _Stop(stop))
    ready = options.data_dir / "ready.json"
    with contextlib.suppress(OSError):
        ready.unlink(missing_ok=True)
    try:
        running = await start(options, keys.result)
    except (
        OSError,
        StoreUnavailable,
        EncryptionError,
        TlsError,
        AuthenticationError,
        AdmissionError,
        AuthorizationError,
        AuditError,
        EgressError,
        TracingError,
        PluginError,
    ) as error:
        _log.error("Failed to start server", extra={"err": error})
        return EXIT_FAILED
    gc.freeze()  # Most objects so far exist as long as the process: the collector need not examine them.
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    command = f"export KUBECONFIG={shlex.quote(str(running.kubeconfig.absolute()))}"
    sys.stdout.write(
        f"Serving on {running.url}\nTo use the server as administrator, with kubectl or another client:\n  {command}\n"
    )
    sys.stdout.flush()
    serving = f"Serving on {running.url}"
    manager.ready(serving)
    async with TaskOwner("service manager") as tasks:
        tasks.start(manager.run_watchdog(lambda: serving, SystemClock()), "watchdog")
        await stop.wait()
        _log.info("Shutting down")
        manager.stopping()
        await running.stop()
    with contextlib.suppress(OSError):
        ready.unlink(missing_ok=True)
    return 0


class _Stop:
    """Signal handler: the first signal starts a graceful shutdown, the second exits immediately."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def __call__(self) -> None:
        if self._event.is_set():
            sys.exit(EXIT_FAILED)
        self._event.set()


if __name__ == "__main__":
    sys.exit(main())
