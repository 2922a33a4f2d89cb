"""``nodeagent why pod/NAMESPACE/NAME``: explain why a pod is not Ready: its stages, the cause and a remedy.

Exit codes: 0 the pod is Ready or has succeeded, 1 it is not Ready, 2 usage error, 3 the agent is unreachable.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, printable
from nodeagent.contracts.diagnostics import WHY_QUERY, PodExplanation, StageState, WhyRequest
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.pod import PodPhase
from nodeagent.model.wire import to_wire

_SIGNS = {StageState.DONE: "+", StageState.WORKING: "~", StageState.BLOCKED: "!", StageState.WAITING: " "}


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    why = commands.add_parser("why", help="explain why a pod is not Ready")
    why.add_argument("subject", metavar="[pod/][NAMESPACE/]NAME", type=_subject)
    why.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    why.add_argument("-o", "--output", choices=("text", "json"), default="text")
    why.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Query the agent, print the explanation and return the exit code."""
    try:
        pod = local_client.query(Path(arguments.root_dir), WHY_QUERY, arguments.subject, PodExplanation)
    except local_client.AgentUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(pod))
    else:
        print("\n".join(map(printable, lines(pod, datetime.now(UTC)))))
    return ExitCode.OK if pod.ready or pod.phase == PodPhase.SUCCEEDED else ExitCode.PROBLEMS


def lines(pod: PodExplanation, now: datetime) -> list[str]:
    """Return the explanation as lines of text."""
    state = "is Ready" if pod.ready else "is not Ready" if pod.blocking else f"has terminated ({pod.phase})"
    text = [f"pod {pod.namespace}/{pod.name} {state}; phase {pod.phase}, from source {pod.source}", ""]
    for stage in pod.stages:
        when = f"{stage.at:%Y-%m-%d %H:%M:%SZ}" if stage.at else ""
        names = f"{', '.join(stage.containers)}: " if stage.containers else ""
        reason = f"{stage.reason}: " if stage.reason and stage.state is StageState.BLOCKED else ""
        is_cause = pod.blocked and stage.stage is pod.blocking
        detail = f"{stage.reason}, see below" if is_cause else f"{reason}{names}{stage.detail}"
        text.append(f" {_SIGNS[stage.state]} {stage.stage:8} {stage.state:8} {when:21} {detail}".rstrip())
    if pod.blocking is not None:
        progress = "Blocked" if pod.blocked else "In progress"
        by = f" (plugin {pod.plugin})" if pod.plugin else ""
        text += ["", f"{progress} at {pod.blocking}{by}: {pod.cause}"]
        if pod.next_try_seconds is not None and (pod.blocked or pod.next_try_seconds >= 1):
            text.append(f"Next retry: {'now' if pod.next_try_seconds < 1 else f'in {pod.next_try_seconds:.0f} s'}")
        if pod.remedy:
            text.append(f"Remedy: {pod.remedy}")
    if pod.devices:
        text += ["", "Devices:"]
        for device in pod.devices:
            message = f": {device.message}" if device.message else ""
            text.append(f"  {device.container}: {device.resource} {device.id} {device.health}{message}")
    if pod.decisions:
        text += ["", "Decisions of plugins, most recent last:"]
        for decision in pod.decisions:
            times = f" (x{decision.count} since {decision.at:%H:%M:%S})" if decision.count > 1 else ""
            hook = decision.hook.removeprefix("nodeagent_")
            decided = decision.verdict  # wording: ok
            text.append(f"  {_ago(now, decision.last):>5}  {decision.plugin} ({hook}): {decided}{times}")
    if pod.events:
        text += ["", "Events, most recent last:"]
        for event in pod.events:
            times = f" (x{event.count} since {event.first:%H:%M:%S})" if event.count > 1 else ""
            text.append(f"  {_ago(now, event.last):>5}  {event.type:7} {event.reason}: {event.note}{times}")
    return text


def _ago(now: datetime, then: datetime) -> str:
    seconds = max(0, int((now - then).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"


def _subject(text: str) -> WhyRequest:
    """Parse a pod name in the format of kubectl (``pod/NAME``) or of ``status`` and events (``NAMESPACE/NAME``)."""
    parts = text.split("/")
    if len(parts) > 1 and parts[0] in ("pod", "pods", "po"):
        parts = parts[1:]
    if len(parts) > 2 or not all(parts):
        raise argparse.ArgumentTypeError(f"invalid pod name {text!r}: must be pod/NAMESPACE/NAME")
    return WhyRequest(namespace=parts[0] if len(parts) == 2 else "default", name=parts[-1])
