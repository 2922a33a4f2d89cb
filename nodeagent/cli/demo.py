"""``nodeagent demo``: API server, agent and a pod on this machine (what ``make run`` starts)."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from nodeagent.cli.exit_codes import ExitCode

DEFAULT_IMAGE = "docker.io/library/busybox:1.36"


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("demo", help="run everything on this machine and show a pod")
    parser.add_argument("--once", action="store_true", help="show the running pod, stop everything, exit")
    parser.add_argument("--endpoint", default="", help="container runtime (default that of containerd)")
    parser.add_argument("--image", default=DEFAULT_IMAGE, help="image with a shell (default %(default)s)")
    parser.add_argument("--dir", default="", help="where the demo keeps its files")
    parser.set_defaults(handler=demo)


def demo(arguments: argparse.Namespace) -> int:
    """Run the demo until Ctrl-C, or once."""
    from nodeagent.demo.programs import DemoError
    from nodeagent.demo.show import DEFAULT_ENDPOINT, Demo, default_directory

    directory = Path(arguments.dir).absolute() if arguments.dir else default_directory()
    show = Demo(
        directory, arguments.endpoint or DEFAULT_ENDPOINT, arguments.image, lambda line: print(line, flush=True)
    )
    try:
        asyncio.run(_run(show, once=arguments.once))
    except DemoError as error:
        print(f"nodeagent demo: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    return ExitCode.OK


async def _run(show: Any, *, once: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await show.run(once=once, stop=stop)
