"""``nodeagent devices``: print the devices on the node with their plugin, health, NUMA nodes and containers.

Exit codes: 0 printed, 1 the agent failed to report, 2 usage error, 3 the agent is unreachable.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.contracts.device_report import (
    DEVICES_QUERY,
    DeviceLine,
    DevicesReport,
    DevicesRequest,
    DeviceUser,
    ResourceLine,
)
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.wire import to_wire

_HEADER = ("RESOURCE", "DEVICE", "HEALTH", "NUMA", "CONTAINER", "OWNER")
_RESOURCES_HEADER = ("RESOURCE", "CAPACITY", "HEALTHY", "ALLOCATED", "CONNECTED", "PLUGIN")


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    devices = commands.add_parser("devices", help="print the devices on the node")
    devices.add_argument("resource", nargs="?", default="", help="print only devices of this resource")
    devices.add_argument("--root-dir", default=NodeSettings().root_dir, help="root directory of the running agent")
    devices.add_argument("-o", "--output", choices=("table", "json"), default="table")
    devices.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Query the agent, print its devices and return the exit code."""
    try:
        request = DevicesRequest(arguments.resource)
        report = local_client.query(Path(arguments.root_dir), DEVICES_QUERY, request, DevicesReport)
    except local_client.AgentUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: failed to get the devices: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    if arguments.output == "json":
        print_json(to_wire(report))
        return ExitCode.OK
    print_table(map(_resource_row, report.resources), _RESOURCES_HEADER)
    if report.devices:
        print()
        print_table((row for line in report.devices for row in _rows(line)), _HEADER)
    for problem in _problems(report):
        print(f"\n{problem}")
    return ExitCode.OK


def _resource_row(line: ResourceLine) -> tuple[str, ...]:
    connected = "yes" if line.connected else "no"
    return line.resource, str(line.capacity), str(line.healthy), str(line.allocated), connected, line.plugin or "-"


def _rows(line: DeviceLine) -> list[tuple[str, ...]]:
    """Return one row per container that has the device."""
    nodes = ",".join(map(str, line.numa_nodes)) or "-"
    device = (line.resource, line.id, line.health, nodes)
    return [(*device, _container(user), user.owner or "-") for user in line.users] or [(*device, "-", "-")]


def _container(user: DeviceUser) -> str:
    pod = f"{user.namespace}/{user.pod}" if user.pod else user.pod_uid
    return f"{pod} {user.container}" + ("" if user.allocated else " (reserved)")


def _problems(report: DevicesReport) -> list[str]:
    problems = [f"{line.resource}: {line.error}" for line in report.resources if line.error]
    problems += [
        f"{line.resource}: pods waiting for the plugin: {', '.join(line.waiting_pods)}"
        for line in report.resources
        if line.waiting_pods
    ]
    return problems + [f"{line.resource} {line.id}: {line.message}" for line in report.devices if line.message]
