"""``nodeagent volumes``: print the volumes on the node with their states, drivers and usage.

Exit codes: 0 printed, 1 the agent failed to report, 2 usage error, 3 the agent is unreachable.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.base.quantity import Format, Quantity
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.contracts.settings import NodeSettings
from nodeagent.contracts.volume_report import VOLUMES_QUERY, VolumeLine, VolumesReport, VolumesRequest
from nodeagent.model.wire import to_wire

_HEADER = ("POD", "VOLUME", "CLAIM", "DRIVER", "STATE", "USED", "FREE", "OWNER", "PATH")
_MEBIBYTE = 1 << 20


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    volumes = commands.add_parser("volumes", help="print the volumes on the node")
    volumes.add_argument("pod", nargs="?", default="", metavar="[NAMESPACE/]POD", help="print only volumes of this pod")
    volumes.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    volumes.add_argument("-o", "--output", choices=("table", "json"), default="table")
    volumes.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Query the agent, print its volumes and return the exit code."""
    namespace, slash, name = arguments.pod.rpartition("/")
    if arguments.pod and not slash:
        namespace = "default"
    try:
        request = VolumesRequest(namespace, name)
        report = local_client.query(Path(arguments.root_dir), VOLUMES_QUERY, request, VolumesReport)
    except local_client.AgentUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: failed to get the volumes: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(report))
    else:
        print_table(map(_row, report.volumes), _HEADER)
        for line in report.volumes:
            if line.error:
                print(f"\n{_pod(line)} {line.volume or line.name}: {_problem(line)}")
    return ExitCode.OK


def _row(line: VolumeLine) -> tuple[str, ...]:
    name = line.volume or line.name
    claim, owner = line.claim or "-", line.owner or "-"
    used, free = _size(line.used_bytes), _size(line.available_bytes)
    return _pod(line), name, claim, line.driver or "-", line.state, used, free, owner, line.path or "-"


def _problem(line: VolumeLine) -> str:
    call = f"{line.call}: " if line.call else ""
    retry = f"; next attempt in {line.retry_seconds:.0f} s" if line.retry_seconds is not None else ""
    return f"{call}{line.error}{retry}"


def _pod(line: VolumeLine) -> str:
    return f"{line.namespace}/{line.pod}" if line.pod else line.pod_uid or "-"


def _size(amount: int | None) -> str:
    if amount is None:
        return "-"
    if amount < _MEBIBYTE:
        return str(Quantity(amount, format=Format.BINARY))
    return str(Quantity(amount // _MEBIBYTE * _MEBIBYTE, format=Format.BINARY))
