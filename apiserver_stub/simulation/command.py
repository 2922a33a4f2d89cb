"""``nodeagent-apiserver simulate``: run the server on a simulated clock, network and disk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from nodeagent.base.simulation.command import Simulation, add_arguments, positive, prepare_process

NAME = "nodeagent-apiserver simulate"


def main(arguments: Sequence[str]) -> int:
    """Simulate until all runs are complete or an invariant is violated; return the exit code."""
    parser = argparse.ArgumentParser(prog=NAME, description="Search for failures of the API server in a simulation.")
    add_arguments(parser, "the simulated servers")
    parser.add_argument(
        "--servers",
        type=positive,
        default=1,
        metavar="N",
        help="number of servers; more than one share an etcd cluster of three members (default: 1)",
    )
    parsed = parser.parse_args(arguments)
    prepare_process("apiserver_stub", ["simulate", *arguments], log=parsed.log)
    from apiserver_stub.simulation.run import simulate
    from apiserver_stub.simulation.steps import FAULTS, make_steps

    count = parsed.servers
    return Simulation(
        NAME,
        f" --servers {count}" if count > 1 else "",
        partial(make_steps, servers=count),
        partial(simulate, servers=count),
        FAULTS,
    ).run(parsed)
