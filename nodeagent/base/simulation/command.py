"""Command line of a simulation: runs with consecutive seeds, saved histories and minimal histories of failures."""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from nodeagent.base.simulation.shrink import shrink
from nodeagent.base.simulation.steps import ROUND_SECONDS, History, Outcome, Step

SHRINK_SECONDS = 120.0
EVENTS = 40
OK, VIOLATED, UNREADABLE = 0, 1, 2
"""Exit codes: all invariants hold; one was violated; nothing was simulated, because an input cannot be read."""


class Simulation:
    """A simulation as a command.

    :param name: the command, for messages.
    :param options: further options with which a run is repeated, each with a leading space.
    :param make_steps: returns the steps of a seed and a number of hours.
    :param simulate: executes the steps of a seed for a number of hours.
    :param faults: kinds of steps that are faults.
    """

    def __init__(
        self,
        name: str,
        options: str,
        make_steps: Callable[[int, int], Sequence[Step]],
        simulate: Callable[[int, Sequence[Step], int], Outcome],
        faults: Collection[str],
    ) -> None:
        self._name, self._options = name, options
        self._make_steps, self._simulate, self._faults = make_steps, simulate, faults

    def run(self, arguments: argparse.Namespace) -> int:
        """Simulate until all runs are complete or an invariant is violated; return the exit code.

        :param arguments: those of :func:`add_arguments`.
        """
        if arguments.history:
            return self._repeat(arguments)
        first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
        for seed in range(first, first + arguments.runs):
            history = History(seed=seed, hours=arguments.hours, steps=self._make_steps(seed, arguments.hours))
            if not self._run(history, arguments):
                print(f"repeat with: {self._name} --seed {seed} --hours {arguments.hours}{self._options}")
                return VIOLATED
        return OK

    def _repeat(self, arguments: argparse.Namespace) -> int:
        try:
            history = msgspec.json.decode(Path(arguments.history).read_bytes(), type=History)
        except (OSError, ValueError) as error:
            print(f"{self._name}: --history {arguments.history}: {error}", file=sys.stderr)
            return UNREADABLE
        return OK if self._run(history, arguments) else VIOLATED

    def _run(self, history: History, arguments: argparse.Namespace) -> bool:
        """Simulate once; return false if an invariant was violated."""
        seed, steps = history.seed, history.steps
        outcome = self._simulate(seed, steps, history.hours)
        faults = sum(count for kind, count in outcome.steps.items() if kind in self._faults)
        print(
            f"seed {seed}: {outcome.at / 3600:.1f} h in {outcome.seconds:.1f} s, {sum(outcome.steps.values())} steps, "
            f"{faults} of them faults, {outcome.checked} conditions verified, trace {outcome.digest}",
            flush=True,
        )
        if arguments.statistics:
            counts = {**outcome.steps, **{f"event {name}": count for name, count in outcome.events.items()}}
            print("  " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())), flush=True)
        if not outcome.violation:
            return True
        print(f"violation: {outcome.violation}\nsearching for the minimal history", flush=True)
        kept, minimal = shrink(
            steps, outcome, lambda fewer, hours: self._simulate(seed, fewer, hours), arguments.shrink_seconds
        )
        _print_history(len(steps), kept, minimal)
        if arguments.save:
            hours = math.ceil(minimal.at / ROUND_SECONDS)
            saved = History(seed=seed, hours=hours, violation=minimal.violation, steps=kept)
            Path(arguments.save).write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n")
        return False


def add_arguments(parser: argparse.ArgumentParser, subject: str) -> None:
    """Add the options that all simulations have.

    :param subject: the simulated component, for the help.
    """
    parser.add_argument("--seed", type=int, help="determines the order of all events (default: a random one)")
    parser.add_argument("--hours", type=positive, default=1, help="simulated time of each run (default: 1)")
    parser.add_argument("--runs", type=positive, default=1, help="number of runs, with consecutive seeds (default: 1)")
    parser.add_argument(
        "--shrink-seconds",
        type=float,
        default=SHRINK_SECONDS,
        metavar="SECONDS",
        help=f"time to search for the minimal history of a failure (default: {SHRINK_SECONDS:g})",
    )
    parser.add_argument("--history", metavar="FILE", help="repeat a history that was saved with --save")
    parser.add_argument("--save", metavar="FILE", help="write the minimal history of a failure to FILE")
    parser.add_argument("--log", action="store_true", help=f"write the log of {subject} to standard error")
    parser.add_argument("--statistics", action="store_true", help="print the number of steps and events by kind")


def prepare_process(module: str, command: Sequence[str], *, log: bool) -> None:
    """Disable logs unless requested, and start this process again without randomized hashes.

    Randomized hashes change the order of sets of strings.

    :param module: module to execute.
    :param command: its arguments.
    """
    if sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED") != "0":
        sys.stdout.flush()
        arguments = [sys.executable, "-m", module, *command]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606
    if log:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    else:
        logging.disable(logging.CRITICAL)


def _print_history(total: int, steps: Sequence[Step], outcome: Outcome) -> None:
    print(f"minimal history: {len(steps)} of {total} steps")
    for step in steps:
        print(f"  {step}")
    print("last events:")
    for event in outcome.trace[-EVENTS:]:
        print(f"  {event}")
    print(f"violation: {outcome.violation}")


def positive(text: str) -> int:
    """Return a positive number of the command line.

    :raises argparse.ArgumentTypeError: it is not positive.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
