"""``nodeagent-apiserver simulate``: run the server on a simulated clock, network and disk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from nodeagent.base.simulation.command import Simulation, add_arguments, prepare_process

NAME = "nodeagent-apiserver simulate"


def main(arguments: Sequence[str]) -> int:
    """Simulate until all runs are complete or an invariant is violated; return the exit code."""
    parser = argparse.ArgumentParser(prog=NAME, description="Search for failures of the API server in a simulation.")
    add_arguments(parser, "the simulated server")
    parsed = parser.parse_args(arguments)
    prepare_process("apiserver_stub", ["simulate", *arguments], log=parsed.log)
    from apiserver_stub.simulation.run import simulate
    from apiserver_stub.simulation.steps import FAULTS, make_steps

    return Simulation(NAME, "", make_steps, simulate, FAULTS).run(parsed)
