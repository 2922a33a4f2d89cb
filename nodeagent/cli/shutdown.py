"""``nodeagent shutdown rehearse``: which pods a node shutdown would end, in which order and with how much time.

Exit codes: 0 shown, 1 a shutdown would not wait for the pods, or nothing is known of them, 2 wrong usage or
configuration.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodeagent.cli import local
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json
from nodeagent.config.load import load_configuration
from nodeagent.contracts.settings import NodeSettings
from nodeagent.contracts.shutdown import (
    ShutdownPeriods,
    ShutdownPod,
    ShutdownStep,
    plan_file,
    plan_from_json,
    rehearse,
    shutdown_periods,
)


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    shutdown = commands.add_parser("shutdown", help="what happens when the node shuts down")
    actions = shutdown.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser("rehearse", help="show which pods would end, in which order and with how much time")
    action.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    action.add_argument("--config", default="", metavar="FILE", help="configuration to try instead of the agent's own")
    action.add_argument("-o", "--output", choices=("text", "json"), default="text")
    action.set_defaults(handler=run_rehearsal)


def run_rehearsal(arguments: argparse.Namespace) -> int:
    """Print what would happen, every pod taking as long as it may; return the exit code.

    :raises ConfigError: ``--config`` is not acceptable.
    """
    file = plan_file(Path(arguments.root_dir))
    try:
        plan = plan_from_json(json.loads(file.read_bytes()))
    except OSError as error:
        print(f"nodeagent: {file}: {error.strerror}; has an agent run here?", file=sys.stderr)
        return ExitCode.PROBLEMS
    except ValueError as error:
        print(f"nodeagent: {file}: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    periods, pods = plan.periods, plan.pods
    if arguments.config:
        loaded = load_configuration(["--config", arguments.config])
        periods = shutdown_periods(loaded.config, loaded.gates)
    steps = list(rehearse(periods, pods)) if periods.entries else []
    if arguments.output == "json":
        print_json(_report(periods, pods, steps) | {"problem": plan.problem})
    else:
        _print(periods, pods, steps)
    problem = plan.problem
    if not local.answers(Path(arguments.root_dir)):
        problem = "no agent runs now, and what is shown is what the last one knew"
    if problem:
        print(f"nodeagent: the shutdown would not wait for this: {problem}", file=sys.stderr)
    return ExitCode.PROBLEMS if problem else ExitCode.OK


def _report(periods: ShutdownPeriods, pods: Sequence[ShutdownPod], steps: Sequence[ShutdownStep]) -> dict[str, Any]:
    return {
        "enabled": bool(periods.entries),
        "totalSeconds": _total(steps),
        "delaySeconds": periods.total(),
        "groups": [
            {
                "priority": step.priority,
                "startsAfterSeconds": step.starts_after_seconds,
                "waitsSeconds": step.waits_seconds,
                "pods": [
                    {
                        "namespace": pod.namespace,
                        "name": pod.name,
                        "uid": pod.uid,
                        "priority": pod.priority,
                        "graceSeconds": grace,
                    }
                    for pod, grace in step.pods
                ],
            }
            for step in steps
        ],
        "pods": len(pods),
    }


def _print(periods: ShutdownPeriods, pods: Sequence[ShutdownPod], steps: Sequence[ShutdownStep]) -> None:
    if not periods.entries:
        pods_end = "1 pod would end" if len(pods) == 1 else f"{len(pods)} pods would end"
        print(f"Graceful shutdown is off: {pods_end} when the machine goes down.")
        print("Set shutdownGracePeriod, or shutdownGracePeriodByPodPriority, to end them in order.")
        return
    for step in steps:
        begin, end = step.starts_after_seconds, step.starts_after_seconds + step.waits_seconds
        print(f"{begin:7.1f} s  priority {step.priority} and above, until {end:.1f} s at the latest")
        for pod, grace in step.pods:
            print(f"           {pod.namespace}/{pod.name}  priority {pod.priority}, grace {grace} s")
    print(f"{_total(steps):7.1f} s  the shutdown goes on; it is held back for {periods.total()} s at most")


def _total(steps: Sequence[ShutdownStep]) -> float:
    return steps[-1].starts_after_seconds + steps[-1].waits_seconds if steps else 0.0
