"""``nodeagent demo``: API server, runtime, agent and a pod on this machine (what ``make run`` starts)."""

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

QUESTION_SECONDS = 30.0


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("demo", help="run everything on this machine and show a pod")
    parser.add_argument("--once", action="store_true", help="show the running pod, stop everything, exit")
    parser.add_argument(
        "--endpoint",
        default="",
        metavar="RUNTIME",
        help="container runtime, unix:///path or the word embedded (default: one that serves at its usual place, "
        "else the embedded one)",
    )
    parser.add_argument("--image", default="", help="image with a shell (default: one that needs no registry, if any)")
    parser.add_argument("--dir", default="", help="where the demo keeps its files")
    parser.add_argument("--stop-pods", action="store_true", help="end the pod too when Ctrl-C stops the programs")
    parser.set_defaults(handler=demo)


def demo(arguments: argparse.Namespace) -> int:
    """Run the demo until Ctrl-C, or once."""
    if missing := missing_extra("nodeagent demo", "apiserver"):
        print(missing, file=sys.stderr)
        return ExitCode.CONFIGURATION
    from nodeagent.demo.programs import DemoError
    from nodeagent.demo.show import Demo, default_directory

    directory = Path(arguments.dir).absolute() if arguments.dir else default_directory()
    stop = asyncio.Event()

    async def stop_pods() -> bool:
        return arguments.stop_pods or (sys.stdin.isatty() and await _ask("End the pod too? [y/N] ", stop))

    show = Demo(directory, arguments.endpoint, arguments.image, lambda line: print(line, flush=True), stop_pods)
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


async def _ask(question: str, again: asyncio.Event) -> bool:
    """Return whether the person at the terminal says yes; a second Ctrl-C, and no answer in time, are a no."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    again.clear()
    print(f"\n{question}", end="", flush=True)
    interrupted = asyncio.create_task(again.wait(), name="second Ctrl-C")

    def read() -> None:
        loop.remove_reader(sys.stdin.fileno())
        answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        waited: set[asyncio.Future[Any]] = {answer, interrupted}
        await asyncio.wait(waited, timeout=QUESTION_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(sys.stdin.fileno())
        interrupted.cancel()
    return answer.done() and answer.result().strip().lower() in ("y", "yes")
