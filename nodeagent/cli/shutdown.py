"""``nodeagent shutdown rehearse``: print the order and the grace periods in which a node shutdown would terminate pods.

Exit codes: 0 printed, 1 a shutdown would not wait for the pods, or there is no plan, 2 usage error or invalid
configuration.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.base.release import ReleaseOrigin
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json
from nodeagent.config.load import load_file
from nodeagent.config.release import last_release
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
    shutdown = commands.add_parser("shutdown", help="rehearse a graceful node shutdown")
    actions = shutdown.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser("rehearse", help="print order and grace periods of pod termination")
    action.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    action.add_argument("--config", default="", metavar="FILE", help="configuration to use instead of the agent's")
    action.add_argument("-o", "--output", choices=("text", "json"), default="text")
    action.set_defaults(handler=run_rehearsal)


def run_rehearsal(arguments: argparse.Namespace) -> int:
    """Print the steps of a shutdown in which every pod uses its complete grace period; return the exit code.

    :raises ConfigError: the file of ``--config`` is invalid.
    """
    file = plan_file(Path(arguments.root_dir))
    try:
        plan = plan_from_json(json.loads(file.read_bytes()))
    except OSError as error:
        print(
            f"nodeagent: failed to read {file}: {error.strerror}; start the agent, or specify its --root-dir",
            file=sys.stderr,
        )
        return ExitCode.PROBLEMS
    except ValueError as error:
        print(f"nodeagent: {file}: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    periods, pods = plan.periods, plan.pods
    if arguments.config:
        loaded = load_file(arguments.config, last_release(arguments.root_dir, ReleaseOrigin.ASSUMED))
        periods = shutdown_periods(loaded.config, loaded.gates)
    steps = list(rehearse(periods, pods)) if periods.entries else []
    if arguments.output == "json":
        print_json(_report(periods, pods, steps) | {"problem": plan.problem})
    else:
        _print(periods, pods, steps)
    problem = plan.problem
    if not local_client.is_listening(Path(arguments.root_dir)):
        problem = "the agent is not running, the plan is from its last run"
    if problem:
        print(f"nodeagent: the shutdown would not wait for the pods: {problem}", file=sys.stderr)
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
        count = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
        print(f"Graceful node shutdown is disabled: {count} would be killed when the node shuts down.")
        print("Set shutdownGracePeriod or shutdownGracePeriodByPodPriority to terminate pods in order.")
        return
    for step in steps:
        start, end = step.starts_after_seconds, step.starts_after_seconds + step.waits_seconds
        print(f"{start:7.1f} s  priority {step.priority} and above, until {end:.1f} s at the latest")
        for pod, grace in step.pods:
            print(f"           {pod.namespace}/{pod.name}  priority {pod.priority}, grace period {grace} s")
    print(f"{_total(steps):7.1f} s  the shutdown continues; it is delayed by {periods.total()} s at most")


def _total(steps: Sequence[ShutdownStep]) -> float:
    return steps[-1].starts_after_seconds + steps[-1].waits_seconds if steps else 0.0
