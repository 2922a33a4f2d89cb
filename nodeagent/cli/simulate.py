"""``nodeagent simulate``: run a node on a simulated clock, network, disk, runtime and API server."""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from nodeagent.simulation.run import Outcome
    from nodeagent.simulation.steps import History

SHRINK_SECONDS = 120.0
EVENTS = 40


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("simulate", help="search for failures of the agent on a simulated node")
    parser.add_argument("--seed", type=int, help="determines the order of all events (default: a random one)")
    parser.add_argument("--hours", type=_positive, default=1, help="simulated time of each run (default: 1)")
    parser.add_argument("--runs", type=_positive, default=1, help="number of runs, with consecutive seeds (default: 1)")
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="module with a plugin to run in the simulated agent; replaces a bundled plugin of the same name; can be "
        "specified multiple times",
    )
    parser.add_argument(
        "--shrink-seconds",
        type=float,
        default=SHRINK_SECONDS,
        metavar="SECONDS",
        help=f"time to search for the minimal history of a failure (default: {SHRINK_SECONDS:g})",
    )
    parser.add_argument("--history", metavar="FILE", help="repeat a history that was saved with --save")
    parser.add_argument("--save", metavar="FILE", help="write the minimal history of a failure to FILE")
    parser.add_argument("--log", action="store_true", help="write the log of the simulated agent to standard error")
    parser.set_defaults(handler=simulate_node)


def simulate_node(arguments: argparse.Namespace) -> int:
    """Simulate until all runs are complete or an invariant is violated."""
    _fix_hashes()
    from nodeagent.simulation.steps import History, make_steps

    if arguments.log:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    else:
        logging.disable(logging.CRITICAL)
    plugins = {}
    for name in arguments.plugin:
        try:
            plugins[name.rpartition(".")[2]] = importlib.import_module(name)
        except Exception as error:  # A third-party module can raise anything.
            print(f"nodeagent simulate: --plugin {name}: {error!r}", file=sys.stderr)
            return ExitCode.CONFIGURATION
    if arguments.history:
        return _repeat(arguments, plugins)
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)  # noqa: S311
    for seed in range(first, first + arguments.runs):
        history = History(seed=seed, hours=arguments.hours, steps=make_steps(seed, arguments.hours))
        if not _run(history, plugins, arguments):
            options = "".join(f" --plugin {name}" for name in arguments.plugin)
            print(f"repeat with: nodeagent simulate --seed {seed} --hours {arguments.hours}{options}")
            return ExitCode.PROBLEMS
    return ExitCode.OK


def _repeat(arguments: argparse.Namespace, plugins: Mapping[str, object]) -> int:
    import msgspec

    from nodeagent.simulation.steps import History

    try:
        history = msgspec.json.decode(Path(arguments.history).read_bytes(), type=History)
    except (OSError, ValueError) as error:
        print(f"nodeagent simulate: --history {arguments.history}: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    return ExitCode.OK if _run(history, plugins, arguments) else ExitCode.PROBLEMS


def _run(history: History, plugins: Mapping[str, object], arguments: argparse.Namespace) -> bool:
    """Simulate once; return false if an invariant was violated."""
    import msgspec

    from nodeagent.simulation.run import simulate
    from nodeagent.simulation.shrink import shrink
    from nodeagent.simulation.steps import FAULTS, ROUND_SECONDS, History

    seed, steps = history.seed, history.steps
    outcome = simulate(seed, steps, history.hours, plugins)
    faults = sum(count for kind, count in outcome.steps.items() if kind in FAULTS)
    print(
        f"seed {seed}: {outcome.at / 3600:.1f} h in {outcome.seconds:.1f} s, {sum(outcome.steps.values())} steps, "
        f"{faults} of them faults, {outcome.checked} conditions verified, trace {outcome.digest}",
        flush=True,
    )
    if not outcome.violation:
        return True
    print(f"violation: {outcome.violation}\nsearching for the minimal history", flush=True)
    kept, minimal = shrink(
        steps, outcome, lambda fewer, hours: simulate(seed, fewer, hours, plugins), arguments.shrink_seconds
    )
    _print_history(len(steps), [str(step) for step in kept], minimal)
    if arguments.save:
        hours = math.ceil(minimal.at / ROUND_SECONDS)
        saved = History(seed=seed, hours=hours, violation=minimal.violation, steps=kept)
        Path(arguments.save).write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n")
    return False


def _print_history(total: int, steps: list[str], outcome: Outcome) -> None:
    print(f"minimal history: {len(steps)} of {total} steps")
    for step in steps:
        print(f"  {step}")
    print("last events:")
    for event in outcome.trace[-EVENTS:]:
        print(f"  {event}")
    print(f"violation: {outcome.violation}")


def _fix_hashes() -> None:
    """Start this process again without randomized hashes, which change the order of sets of strings."""
    if sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED") != "0":
        sys.stdout.flush()
        arguments = [sys.executable, "-m", "nodeagent", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
