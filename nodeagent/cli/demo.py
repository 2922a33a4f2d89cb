"""``nodeagent demo``: run an API server, a runtime, the agent and a pod on this host; also started by ``make run``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nodeagent.base.extras import missing_extra
from nodeagent.cli.exit_codes import ExitCode

PROMPT_SECONDS = 30.0


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("demo", help="run a complete node on this host, with a pod")
    parser.add_argument("--once", action="store_true", help="print the running pod, stop everything and exit")
    parser.add_argument(
        "--endpoint",
        default="",
        metavar="RUNTIME",
        help='container runtime: unix:///path, or "embedded" (default: a running one on its default socket, otherwise '
        "the embedded runtime)",
    )
    parser.add_argument("--image", default="", help="image with a shell (default: one available without a registry)")
    parser.add_argument("--dir", default="", help="directory for the demo's files")
    parser.add_argument("--plugin-config", default="", metavar="FILE", help="settings of plugins, as for nodeagent run")
    parser.add_argument("--stop-pods", action="store_true", help="delete the pod, too, when Ctrl-C stops the demo")
    parser.set_defaults(handler=demo)


def demo(arguments: argparse.Namespace) -> int:
    """Run the demo until Ctrl-C; with ``--once``, until the pod is running."""
    if missing := missing_extra("nodeagent demo", "apiserver"):
        print(missing, file=sys.stderr)
        return ExitCode.CONFIGURATION
    from nodeagent.demo.processes import DemoError
    from nodeagent.demo.show import Demo, default_directory

    directory = Path(arguments.dir).absolute() if arguments.dir else default_directory()
    stop = asyncio.Event()

    async def stop_pods() -> bool:
        return arguments.stop_pods or (sys.stdin.isatty() and await _confirm("Delete the pod, too? [y/N] ", stop))

    show = Demo(
        directory,
        arguments.endpoint,
        arguments.image,
        lambda line: print(line, flush=True),
        stop_pods,
        Path(arguments.plugin_config).absolute() if arguments.plugin_config else None,
    )
    try:
        asyncio.run(_run(show.run, stop, once=arguments.once))
    except DemoError as error:
        print(f"nodeagent demo: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    return ExitCode.OK


async def _run(run: Callable[..., Awaitable[None]], stop: asyncio.Event, *, once: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await run(once=once, stop=stop)


async def _confirm(prompt: str, stop: asyncio.Event) -> bool:
    """Return whether the user confirms *prompt* at the terminal; a second Ctrl-C and a timeout mean no."""
    loop = asyncio.get_running_loop()
    reply: asyncio.Future[str] = loop.create_future()
    stop.clear()
    print(f"\n{prompt}", end="", flush=True)
    interrupted = asyncio.create_task(stop.wait(), name="second Ctrl-C")

    def read() -> None:
        loop.remove_reader(sys.stdin.fileno())
        reply.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        waited: set[asyncio.Future[Any]] = {reply, interrupted}
        await asyncio.wait(waited, timeout=PROMPT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(sys.stdin.fileno())
        interrupted.cancel()
    return reply.done() and reply.result().strip().lower() in ("y", "yes")
