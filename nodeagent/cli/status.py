"""``nodeagent status``: the node, its pods with their stages, pressure, pulls and loops; live with ``--watch``.

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage, 3 no agent answers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.base.extras import missing_extra
from nodeagent.cli import local
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json
from nodeagent.contracts.diagnostics import STATUS_QUERY, ConditionLine, GaugeLine, NodeOverview, PodLine, PullLine
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.wire import to_wire

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_WIDE = 100
"""From how many columns on nothing is made narrower."""
_BAR, _NARROW_BAR = 10, 5
_NAME, _NARROW_NAME = 40, 30
_BESIDE_NAME = 32
"""Width of the columns between a pod's name and the reason why it does not serve."""
_SHORTEST_CAUSE = 40
"""With less room than this beside the name, a cause gets a line of its own."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    status = commands.add_parser("status", help="show the node, its pods, pressure, pulls and loops")
    status.add_argument("--watch", action="store_true", help="show it again and again, until interrupted")
    status.add_argument("--interval", type=_seconds, default=2.0, metavar="SECONDS", help="between two looks (2)")
    status.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    status.add_argument("-o", "--output", choices=("text", "json"), default="text")
    status.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Ask the agent, print what it answers and return the exit code."""
    as_text = arguments.watch or arguments.output == "text"
    if as_text and (missing := missing_extra("nodeagent status", "cli")):
        print(missing, file=sys.stderr)
        return ExitCode.CONFIGURATION
    root = Path(arguments.root_dir)
    try:
        found = local.ask(root, STATUS_QUERY, NoArguments(), NodeOverview)
        if arguments.watch:
            return _watch(root, found, arguments)
    except (local.NoAgent, local.NotAnswered) as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE if isinstance(error, local.NoAgent) else ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(found))
    else:
        console = _console()
        console.print(render(found, console.width if console.is_terminal else 0))
    return ExitCode.OK if well(found) else ExitCode.PROBLEMS


def well(found: NodeOverview) -> bool:
    """Whether nothing is wrong with the node, its pods and its loops."""
    bad = any(pod.blocked for pod in found.pods) or any(loop.problem for loop in found.loops)
    return found.ready and not found.api_server and not bad and not any(map(_wrong, found.conditions))


def render(found: NodeOverview, width: int, height: int = 0) -> Text:
    """Return the view for a screen of *width* by *height*; 0 is no limit, as for a pipe.

    On a screen pods that are held up come first, each with its cause in a line of its own while there is room; what
    does not fit is counted.
    """
    from rich.text import Text

    before = [*_head(found), *_gauges(found.gauges, width)]
    bad = [f"loop {loop.name}: {loop.problem}" for loop in found.loops if loop.problem]
    after = [
        *(Text(f"pull {p.image} {_doing(p)} {p.seconds:.0f} s for {', '.join(p.pods)}", "cyan") for p in found.pulls),
        *(Text(line, "bold red") for line in bad),
    ]
    if not bad:
        after.append(Text(f"{len(found.loops)} loops do well", "green"))
    room = max(1, height - len(before) - len(after) - 1) if height else 0
    lines = [*before, *_pods(found, width, room), *after]
    for line in lines:
        if width:
            line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines[: height or len(lines)])


def _pods(found: NodeOverview, width: int, room: int) -> list[Text]:
    """Return the table of pods, at most *room* lines below its heading; 0 is no limit."""
    from rich.text import Text

    pods = sorted(found.pods, key=lambda pod: (not pod.blocked, pod.ready)) if room else found.pods
    longest = max((len(f"{pod.namespace}/{pod.name}") for pod in pods), default=0)
    column = min(max(longest, len("NAMESPACE/POD")), _NAME if not width or width >= _WIDE else _NARROW_NAME)
    apart = bool(width) and width < column + _BESIDE_NAME + _SHORTEST_CAUSE
    heading = Text(f"{'NAMESPACE/POD':{column}} {'READY':>5} {'RESTARTS':>8} {'AGE':>5} {'STAGE':8} WHY", "bold")
    spare = room - len(pods) if room else len(pods)
    rows: list[Text] = []
    for pod in pods:
        cause = " ".join(pod.cause.split())
        below = apart and bool(cause) and spare > 0
        rows.append(_pod(pod, found.at, column, "" if below else cause))
        if below:
            spare -= 1
            rows.append(Text(f"  {cause}", "dim"))
    if room and len(rows) > room:
        rows = [*rows[: room - 1], Text(f"… and {len(pods) - room + 1} more", "dim")]
    return [heading, *rows]


def _head(found: NodeOverview) -> list[Text]:
    from rich.text import Text

    state = Text.assemble(
        (f"{found.node} ", "bold"),
        ("Ready" if found.ready else "NotReady", "bold green" if found.ready else "bold red"),
        f"  {found.at:%Y-%m-%d %H:%M:%SZ}  nodeagent {found.version}, up {_age(found.at, found.started_at)}",
        f"  {found.runtime or 'no runtime'}",
    )
    wrong = [Text(f"{c.type}={c.status} {c.reason}: {c.message}", "bold red") for c in found.conditions if _wrong(c)]
    if found.api_server:
        wrong.append(Text(f"API server: {found.api_server}", "bold red"))
    return [state, *wrong] if wrong else [state, Text("no pressure, every condition is as it should be", "green")]


def _gauges(gauges: Iterable[GaugeLine], width: int) -> list[Text]:
    from rich.text import Text

    steps = _BAR if not width or width >= _WIDE else _NARROW_BAR
    parts = []
    for gauge in gauges:
        share = gauge.used / gauge.capacity if gauge.capacity else 0.0
        filled = min(steps, round(share * steps))
        colour = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
        bar = "#" * filled + "." * (steps - filled)
        amount = f" of {_amount(gauge)}"
        parts.append(Text.assemble(f"{gauge.name:14} ", (f"[{bar}] {share:4.0%}", colour), f"{amount:12}"))
    pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
    lines = [Text("  ").join(pair) for pair in pairs]
    for line in lines:
        line.rstrip()
    return lines


def _pod(pod: PodLine, now: datetime, column: int, cause: str) -> Text:
    from rich.text import Text

    name = f"{pod.namespace}/{pod.name}"
    name = name if len(name) <= column else name[: column - 1] + "…"
    stage = str(pod.stage) if pod.stage is not None else "serves" if pod.ready else pod.phase
    colour = "red" if pod.blocked else "green" if pod.ready else "" if pod.stage is None else "yellow"
    why = " ".join(part for part in (pod.reason if pod.blocked else "", cause) if part)
    ready = f"{pod.containers_ready}/{pod.containers}"
    age = _age(now, pod.started_at) if pod.started_at else ""
    line = Text.assemble(f"{name:{column}} {ready:>5} {pod.restarts:>8} {age:>5} ", (f"{stage:8} ", colour), why)
    line.rstrip()
    return line


def _watch(root: Path, found: NodeOverview, arguments: argparse.Namespace) -> int:
    """Show the view until interrupted; without a terminal one view follows the other."""
    from rich.live import Live

    console = _console()
    try:
        if arguments.output == "json" or not console.is_terminal:
            while True:
                if arguments.output == "json":
                    print_json(to_wire(found), indent=None)
                else:
                    console.print(render(found, 0), end="\n\n")
                sys.stdout.flush()
                time.sleep(arguments.interval)
                found = local.ask(root, STATUS_QUERY, NoArguments(), NodeOverview)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(render(found, console.width, console.height - 1), refresh=True)
                time.sleep(arguments.interval)
                found = local.ask(root, STATUS_QUERY, NoArguments(), NodeOverview)
    except KeyboardInterrupt:
        return ExitCode.OK if well(found) else ExitCode.PROBLEMS


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, highlight=False, soft_wrap=True)


def _doing(pull: PullLine) -> str:
    return "asks for credentials" if pull.asks else "waits" if pull.waits else "runs"


def _wrong(condition: ConditionLine) -> bool:
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
