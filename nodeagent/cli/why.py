"""``nodeagent why pod/NAMESPACE/NAME``: where a pod is on its way, what keeps it there, and what to do.

Exit codes: 0 the pod serves or has ended well, 1 it does not, 2 wrong usage, 3 no agent answers.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeagent.cli import local
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json
from nodeagent.contracts.diagnostics import WHY_QUERY, PodExplanation, StageState, WhyRequest
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.pod import PodPhase
from nodeagent.model.wire import to_wire

_SIGNS = {StageState.DONE: "+", StageState.WORKING: "~", StageState.BLOCKED: "!", StageState.WAITING: " "}


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    why = commands.add_parser("why", help="tell why a pod does not serve, and what to do")
    why.add_argument("subject", metavar="[pod/][NAMESPACE/]NAME", type=_subject)
    why.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    why.add_argument("-o", "--output", choices=("text", "json"), default="text")
    why.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Ask the agent, print what it answers and return the exit code."""
    try:
        found = local.ask(Path(arguments.root_dir), WHY_QUERY, arguments.subject, PodExplanation)
    except local.NoAgent as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local.NotAnswered as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(found))
    else:
        print("\n".join(lines(found, datetime.now(UTC))))
    return ExitCode.OK if found.ready or found.phase == PodPhase.SUCCEEDED else ExitCode.PROBLEMS


def lines(found: PodExplanation, now: datetime) -> list[str]:
    """Return the explanation as people read it."""
    state = "serves" if found.ready else "does not serve" if found.blocking else f"has ended ({found.phase})"
    text = [f"pod {found.namespace}/{found.name} {state}; phase {found.phase}, from source {found.source}", ""]
    for stage in found.stages:
        when = f"{stage.at:%Y-%m-%d %H:%M:%SZ}" if stage.at else ""
        names = f"{', '.join(stage.containers)}: " if stage.containers else ""
        reason = f"{stage.reason}: " if stage.reason and stage.state is StageState.BLOCKED else ""
        told_below = found.blocked and stage.stage is found.blocking
        detail = f"{stage.reason}, see below" if told_below else f"{reason}{names}{stage.detail}"
        text.append(f" {_SIGNS[stage.state]} {stage.stage:8} {stage.state:8} {when:21} {detail}".rstrip())
    if found.blocking is not None:
        what = "Blocked at" if found.blocked else "Under way at"
        by = f" (plugin {found.plugin})" if found.plugin else ""
        text += ["", f"{what} {found.blocking}{by}: {found.cause}"]
        if found.next_try_seconds is not None and (found.blocked or found.next_try_seconds >= 1):
            text.append(f"Next try: {'now' if found.next_try_seconds < 1 else f'in {found.next_try_seconds:.0f} s'}")
        if found.remedy:
            text.append(f"Remedy: {found.remedy}")
    if found.events:
        text += ["", "Events, the newest last:"]
        for event in found.events:
            times = f" (x{event.count} since {event.first:%H:%M:%S})" if event.count > 1 else ""
            text.append(f"  {_ago(now, event.last):>5}  {event.type:7} {event.reason}: {event.note}{times}")
    return text


def _ago(now: datetime, moment: datetime) -> str:
    seconds = max(0, int((now - moment).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"


def _subject(text: str) -> WhyRequest:
    """Read a pod's name as kubectl writes it (``pod/NAME``) or as ``status`` and events do (``NAMESPACE/NAME``)."""
    parts = text.split("/")
    if len(parts) > 1 and parts[0] in ("pod", "pods", "po"):
        parts = parts[1:]
    if len(parts) > 2 or not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not pod/NAMESPACE/NAME")
    return WhyRequest(namespace=parts[0] if len(parts) == 2 else "default", name=parts[-1])
