"""``nodeagent status``: print the node, its pods with their stages, pressure, image pulls and loops.

Exit codes: 0 healthy, 1 unhealthy, 2 usage error, 3 the agent is unreachable.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import local_client
from nodeagent.base.extras import missing_extra
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, printable
from nodeagent.contracts.diagnostics import (
    STATUS_QUERY,
    ConditionLine,
    DeviceResourceLine,
    GaugeLine,
    NodeOverview,
    PodLine,
    PullLine,
)
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.wire import to_wire

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_WIDE = 100
"""Minimum number of columns for the full width of bars and names."""
_BAR, _NARROW_BAR = 10, 5
_NAME, _NARROW_NAME = 40, 30
_MIDDLE_COLUMNS = 32
"""Width of the columns between the name and the reason of a pod."""
_LISTED_PLUGINS = 4
_MIN_CAUSE = 40
"""With less space in the row than this, the cause is printed on a separate line."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    status = commands.add_parser("status", help="print the node, its pods, pressure, image pulls and loops")
    status.add_argument("--watch", action="store_true", help="refresh until interrupted")
    status.add_argument("--interval", type=_seconds, default=2.0, metavar="SECONDS", help="refresh interval (2)")
    status.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    status.add_argument("-o", "--output", choices=("text", "json"), default="text")
    status.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Query the agent, print the overview and return the exit code."""
    as_text = arguments.watch or arguments.output == "text"
    if as_text and (missing := missing_extra("nodeagent status", "cli")):
        print(missing, file=sys.stderr)
        return ExitCode.CONFIGURATION
    root = Path(arguments.root_dir)
    try:
        overview = local_client.query(root, STATUS_QUERY, NoArguments(), NodeOverview)
        if arguments.watch:
            return _watch(root, overview, arguments)
    except (local_client.AgentUnreachable, local_client.AgentRequestFailed) as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE if isinstance(error, local_client.AgentUnreachable) else ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(overview))
    else:
        console = _console()
        console.print(render(overview, console.width if console.is_terminal else 0))
    return ExitCode.OK if is_healthy(overview) else ExitCode.PROBLEMS


def is_healthy(overview: NodeOverview) -> bool:
    """Return whether the node is Ready, no pod is blocked and all loops are healthy."""
    unhealthy = any(pod.blocked for pod in overview.pods) or any(loop.problem for loop in overview.loops)
    return (
        overview.ready and not overview.api_server and not unhealthy and not any(map(_is_abnormal, overview.conditions))
    )


def _subject(name: str) -> str:
    return name if name.startswith(("plugin ", "source ")) else f"loop {name}"


def render(overview: NodeOverview, width: int, height: int = 0) -> Text:
    """Return the view for a screen of *width* by *height*; 0 is unlimited, as for a pipe.

    On a screen, blocked pods are listed first, each with its cause on a separate line while there is space; pods that
    do not fit are counted.
    """
    from rich.text import Text

    before = [*_header(overview), *_gauges(overview.gauges, width)]
    problems = [f"{_subject(loop.name)}: {loop.problem}" for loop in overview.loops if loop.problem]
    after = [
        *(
            Text(f"pull {pull.image} {_state(pull)} {pull.seconds:.0f} s for {', '.join(pull.pods)}", "cyan")
            for pull in overview.pulls
        ),
        *map(_devices, overview.devices),
        *(Text(line, "bold red") for line in problems),
    ]
    if not problems:
        after.append(Text(f"{len(overview.loops)} loops healthy", "green"))
    if overview.memory_bytes:
        after.append(Text(_memory(overview), "dim"))
    room = max(1, height - len(before) - len(after) - 1) if height else 0
    lines = [*before, *_pods(overview, width, room), *after]
    for line in lines:
        line.plain = printable(line.plain)
        if width:
            line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines[: height or len(lines)])


def _memory(overview: NodeOverview) -> str:
    """Return the memory of the agent, and the plugins that need most of it."""
    largest = [
        f"{line.name} {line.memory_bytes / 2**20:.1f} MiB {line.cpu_seconds:.2f} s"
        for line in overview.plugin_costs[:_LISTED_PLUGINS]
    ]
    return f"agent {overview.memory_bytes / 2**20:.1f} MiB; loading of plugins: {', '.join(largest)}, …"


def _devices(line: DeviceResourceLine) -> Text:
    from rich.text import Text

    text = f"devices {line.name}: {line.allocated} of {line.capacity} allocated, {line.healthy} healthy"
    return Text(f"{text}, {line.problem}", "yellow") if line.problem else Text(text, "green")


def _pods(overview: NodeOverview, width: int, room: int) -> list[Text]:
    """Return the table of pods, at most *room* lines below its heading; 0 is unlimited."""
    from rich.text import Text

    pods = sorted(overview.pods, key=lambda pod: (not pod.blocked, pod.ready)) if room else overview.pods
    longest = max((len(f"{pod.namespace}/{pod.name}") for pod in pods), default=0)
    column = min(max(longest, len("NAMESPACE/POD")), _NAME if not width or width >= _WIDE else _NARROW_NAME)
    separate = bool(width) and width < column + _MIDDLE_COLUMNS + _MIN_CAUSE
    heading = Text(f"{'NAMESPACE/POD':{column}} {'READY':>5} {'RESTARTS':>8} {'AGE':>5} {'STAGE':8} REASON", "bold")
    free = room - len(pods) if room else len(pods)
    rows: list[Text] = []
    for pod in pods:
        cause = " ".join(pod.cause.split())
        below = separate and bool(cause) and free > 0
        rows.append(_pod(pod, overview.at, column, "" if below else cause))
        if below:
            free -= 1
            rows.append(Text(f"  {cause}", "dim"))
    if room and len(rows) > room:
        rows = [*rows[: room - 1], Text(f"… and {len(pods) - room + 1} more", "dim")]
    return [heading, *rows]


def _header(overview: NodeOverview) -> list[Text]:
    from rich.text import Text

    age = _age(overview.at, overview.started_at)
    state = Text.assemble(
        (f"{overview.node} ", "bold"),
        ("Ready" if overview.ready else "NotReady", "bold green" if overview.ready else "bold red"),
        f"  {overview.at:%Y-%m-%d %H:%M:%SZ}  nodeagent {overview.version}, up {age}",
        f"  {overview.runtime or 'no runtime'}",
        f"  release {overview.release}" if overview.release else "",
    )
    problems = [
        Text(f"{condition.type}={condition.status} {condition.reason}: {condition.message}", "bold red")
        for condition in overview.conditions
        if _is_abnormal(condition)
    ]
    if overview.api_server:
        problems.append(Text(f"API server: {overview.api_server}", "bold red"))
    return [state, *problems] if problems else [state, Text("no pressure, all conditions healthy", "green")]


def _gauges(gauges: Iterable[GaugeLine], width: int) -> list[Text]:
    from rich.text import Text

    steps = _BAR if not width or width >= _WIDE else _NARROW_BAR
    parts = []
    for gauge in gauges:
        share = gauge.used / gauge.capacity if gauge.capacity else 0.0
        filled = min(steps, round(share * steps))
        color = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
        bar = "#" * filled + "." * (steps - filled)
        amount = f" of {_amount(gauge)}"
        parts.append(Text.assemble(f"{gauge.name:14} ", (f"[{bar}] {share:4.0%}", color), f"{amount:12}"))
    pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
    lines = [Text("  ").join(pair) for pair in pairs]
    for line in lines:
        line.rstrip()
    return lines


def _pod(pod: PodLine, now: datetime, column: int, cause: str) -> Text:
    from rich.text import Text

    name = f"{pod.namespace}/{pod.name}"
    name = name if len(name) <= column else name[: column - 1] + "…"
    stage = str(pod.stage) if pod.stage is not None else "Ready" if pod.ready else pod.phase
    color = "red" if pod.blocked else "green" if pod.ready else "" if pod.stage is None else "yellow"
    reason = " ".join(part for part in (pod.reason if pod.blocked else "", cause) if part)
    ready = f"{pod.containers_ready}/{pod.containers}"
    age = _age(now, pod.started_at) if pod.started_at else ""
    line = Text.assemble(f"{name:{column}} {ready:>5} {pod.restarts:>8} {age:>5} ", (f"{stage:8} ", color), reason)
    line.rstrip()
    return line


def _watch(root: Path, overview: NodeOverview, arguments: argparse.Namespace) -> int:
    """Refresh the view until interrupted; without a terminal, print one view after another."""
    from rich.live import Live

    console = _console()
    try:
        if arguments.output == "json" or not console.is_terminal:
            while True:
                if arguments.output == "json":
                    print_json(to_wire(overview), indent=None)
                else:
                    console.print(render(overview, 0), end="\n\n")
                sys.stdout.flush()
                time.sleep(arguments.interval)
                overview = local_client.query(root, STATUS_QUERY, NoArguments(), NodeOverview)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(render(overview, console.width, console.height - 1), refresh=True)
                time.sleep(arguments.interval)
                overview = local_client.query(root, STATUS_QUERY, NoArguments(), NodeOverview)
    except KeyboardInterrupt:
        return ExitCode.OK if is_healthy(overview) else ExitCode.PROBLEMS


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, highlight=False, soft_wrap=True)


def _state(pull: PullLine) -> str:
    return "resolving credentials" if pull.asks else "queued" if pull.waits else "pulling"


def _is_abnormal(condition: ConditionLine) -> bool:
    return (condition.status != "True") if condition.type == "Ready" else (condition.status != "False")


def _amount(gauge: GaugeLine) -> str:
    if gauge.name == "cpu":
        return f"{gauge.capacity / 1e9:g} cores"
    if "inodes" in gauge.name or gauge.name == "pids":
        return str(gauge.capacity)
    amount, unit = float(gauge.capacity), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}" if amount >= 1 else f"{amount:.2f} {_UNITS[unit]}"


def _age(now: datetime, then: datetime) -> str:
    seconds = max(0, int((now - then).total_seconds()))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.2 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("must be between 0.2 and 3600 seconds")
    return seconds
