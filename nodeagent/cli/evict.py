"""``nodeagent evict plan``: print the pods that the running agent would evict now, in order, without evicting them.

Exit codes: 0 printed, 1 the agent failed to create a plan, 2 invalid configuration, 3 the agent is unreachable.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.base.quantity import Format, Quantity
from nodeagent.base.release import ReleaseOrigin
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.config.flags import FlagParser
from nodeagent.config.load import load_file
from nodeagent.config.release import last_release
from nodeagent.contracts.eviction import (
    PLAN_QUERY,
    EvictionPlan,
    PlannedPod,
    PlannedThreshold,
    PlanRequest,
    ThresholdMaps,
)
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.wire import to_wire


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    evict = commands.add_parser("evict", help="predict evictions")
    actions = evict.add_subparsers(required=True, metavar="ACTION", parser_class=FlagParser)
    plan = actions.add_parser(
        "plan", help="print the pods to evict now, in order and with reasons, without evicting them"
    )
    plan.add_argument("--config", metavar="FILE", help="use the thresholds of this file instead of the active ones")
    plan.add_argument(
        "--signal",
        default="",
        choices=[str(signal) for signal in Signal],
        help="signal to rank pods for if no threshold is met",
    )
    plan.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    plan.add_argument("-o", "--output", choices=("table", "json"), default="table")
    plan.set_defaults(handler=show_plan)


def show_plan(arguments: argparse.Namespace) -> int:
    """Query the agent, print its plan and return the exit code.

    :raises ConfigError: the file of ``--config`` is invalid; contains all problems.
    """
    request = PlanRequest(thresholds=_thresholds(arguments.config, arguments.root_dir), signal=arguments.signal)
    try:
        plan = local_client.query(Path(arguments.root_dir), PLAN_QUERY, request, EvictionPlan)
    except local_client.AgentUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: failed to get the eviction plan: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(plan))
    else:
        _print(plan)
    return ExitCode.OK


def _thresholds(file: str | None, root_dir: str) -> ThresholdMaps | None:
    if file is None:
        return None
    config = load_file(file, last_release(root_dir, ReleaseOrigin.ASSUMED)).config
    return ThresholdMaps(
        hard=dict(config.eviction_hard),
        soft=dict(config.eviction_soft),
        soft_grace=dict(config.eviction_soft_grace_period),
        minimum_reclaim=dict(config.eviction_minimum_reclaim),
    )


def _print(plan: EvictionPlan) -> None:
    print(f"{plan.node}: {', '.join(plan.conditions) or 'no pressure'}\n")
    print_table(map(_threshold_row, plan.thresholds), ("THRESHOLD", "KIND", "AVAILABLE", "STATE"))
    print()
    if plan.over_limits:
        print("Pods that exceed their local storage limits are evicted first:")
        _pod_table(plan.over_limits)
        print()
    if plan.reclaims_disk:
        print("Unused images and dead containers are removed first, pods only if that is not sufficient.")
    if plan.signal:
        print(f"Pods to evict for {plan.signal}, one at a time until the threshold is resolved:")
    else:
        print(f"No threshold requires an eviction now. Order for {plan.ranked_for}:")
    _pod_table(plan.pods)


def _threshold_row(each: PlannedThreshold) -> tuple[str, ...]:
    if each.available is None:
        state = "not measured"
    elif not each.met:
        state = "not met"
    elif each.due_in_seconds:
        state = f"met, evicts in {each.due_in_seconds:.0f} s"
    else:
        state = "met"
    reclaim = f" (+{each.minimum_reclaim} to resolve)" if each.minimum_reclaim else ""
    left = "" if each.available is None else _amount(each.signal, each.available)
    return f"{each.signal}<{each.limit}{reclaim}", "hard" if each.hard else "soft", left, state


def _amount(signal: str, amount: int) -> str:
    """Return *amount* for display: bytes are rounded down to MiB."""
    if "inodes" in signal or signal == Signal.PID:
        return str(amount)
    return str(Quantity(amount >> 20 << 20, format=Format.BINARY))


def _pod_table(pods: Iterable[PlannedPod]) -> None:
    rows = [
        (pod.verdict, f"{pod.namespace}/{pod.name}", f"{pod.why} (plugin {pod.plugin})" if pod.plugin else pod.why)
        for pod in pods
    ]
    if rows:
        print_table(rows, ("OUTCOME", "POD", "REASON"))
    else:
        print("  no pods")
