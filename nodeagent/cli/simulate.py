"""``nodeagent simulate``: run a node on a simulated clock, network, disk, runtime and API server."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

from nodeagent.cli.exit_codes import ExitCode


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    from nodeagent.base.simulation.command import add_arguments

    parser = commands.add_parser("simulate", help="search for failures of the agent on a simulated node")
    add_arguments(parser, "the simulated agent")
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="module with a plugin to run in the simulated agent; replaces a bundled plugin of the same name; can be "
        "specified multiple times",
    )
    parser.set_defaults(handler=simulate_node)


def simulate_node(arguments: argparse.Namespace) -> int:
    """Simulate until all runs are complete or an invariant is violated."""
    from nodeagent.base.simulation.command import Simulation, prepare_process

    prepare_process("nodeagent", sys.argv[1:], log=arguments.log)
    plugins = {}
    for name in arguments.plugin:
        try:
            plugins[name.rpartition(".")[2]] = importlib.import_module(name)
        except Exception as error:  # A third-party module can raise anything.
            print(f"nodeagent simulate: --plugin {name}: {error!r}", file=sys.stderr)
            return ExitCode.CONFIGURATION
    from nodeagent.simulation.run import simulate
    from nodeagent.simulation.steps import FAULTS, make_steps

    options = "".join(f" --plugin {name}" for name in arguments.plugin)
    simulation = Simulation(
        "nodeagent simulate",
        options,
        make_steps,
        lambda seed, steps, hours: simulate(seed, steps, hours, plugins),
        FAULTS,
    )
    return simulation.run(arguments)
