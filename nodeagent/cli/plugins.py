"""``nodeagent plugins``: list plugins and their decisions, change them at runtime, generate or check a plugin.

Exit codes: 0 done without findings, 1 ``check`` found problems, ``list`` lists a plugin that failed to load or the
agent failed to list them, 2 the name, the directory or the path is invalid and nothing was written or checked, or
``enable``, ``disable`` or ``reload`` changed nothing, 3 the agent is not running, or this user has no access to it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.authoring.scaffold import LICENSES, ProjectKind, ScaffoldError, check_name, write_project
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.plugin_report import (
    CHANGE_QUERY,
    PLUGINS_QUERY,
    PROFILE_QUERY,
    PluginAction,
    PluginChanged,
    PluginChangeRequest,
    PluginLine,
    PluginProfile,
    PluginProfileRequest,
    PluginsReport,
)
from nodeagent.errors import PluginError
from nodeagent.model.wire import to_wire
from nodeagent.pluginmanager import GROUP, PluginManager
from nodeagent.pluginmanager.discovery import distribution_of

DEFAULT_ROOT = "/var/lib/kubelet"
_SHOWN_DECISIONS = 20
_BUNDLED = "nodeagent"
_DONE = {PluginAction.ENABLE: "Enabled", PluginAction.DISABLE: "Disabled", PluginAction.RELOAD: "Reloaded"}
_CHANGES = {
    PluginAction.ENABLE: "load a plugin that is disabled, has failed, or was installed since the start",
    PluginAction.DISABLE: "remove a plugin from the running agent",
    PluginAction.RELOAD: "replace a plugin by its installed code",
}


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("plugins", help="list the installed plugins, generate or check a plugin")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list name, version, origin, hooks and state of all plugins")
    listing.add_argument("names", nargs="*", metavar="NAME", help="list only these plugins and their decisions")
    listing.add_argument("-o", "--output", choices=("table", "json"), default="table")
    listing.add_argument("--root-dir", default=DEFAULT_ROOT, help="root directory of the running agent")
    listing.add_argument("--disable-plugin", action="append", default=[], metavar="NAME")
    listing.set_defaults(handler=list_plugins)
    for action, summary in _CHANGES.items():
        change = actions.add_parser(action, help=f"{summary}, until the agent restarts")
        change.add_argument("name", metavar="NAME", help="the plugin's name")
        change.add_argument("--root-dir", default=DEFAULT_ROOT, help="root directory of the running agent")
        change.set_defaults(handler=partial(change_plugin, PluginAction(action)))
    profile = actions.add_parser("profile", help="measure the CPU time and memory of a plugin in the running agent")
    profile.add_argument("name", metavar="NAME", help="the plugin's name")
    profile.add_argument("--seconds", type=float, default=30.0, metavar="S", help="duration (%(default)s)")
    profile.add_argument("--root-dir", default=DEFAULT_ROOT, help="root directory of the running agent")
    profile.add_argument("-o", "--output", choices=("table", "json"), default="table")
    profile.set_defaults(handler=profile_plugin)
    new = actions.add_parser("new", help="generate the project of a new plugin, with tests")
    new.add_argument("name", metavar="NAME", help="the plugin's name in settings, listings and events")
    new.add_argument("--dir", type=Path, metavar="D", help="directory of the project (default: ./nodeagent-NAME)")
    new.add_argument("--license", choices=LICENSES, default=LICENSES[0], help="license of the project (%(default)s)")
    new.set_defaults(handler=new_plugin)
    new.add_argument(
        "--out-of-process",
        action="store_true",
        help="generate an executable with the gRPC protocol instead of a module",
    )
    protocol = actions.add_parser("protocol", help="print the protocol of out-of-process plugins, a .proto file")
    protocol.set_defaults(handler=print_protocol)
    check = actions.add_parser("check", help="report problems of a plugin, with file and line")
    check.add_argument("path", type=Path, metavar="PATH", help="the project, its package, or a single file")
    check.add_argument("-o", "--output", choices=("text", "json"), default="text")
    check.add_argument("--no-import", action="store_true", help="check only the source; do not run the plugin's code")
    check.add_argument(
        "--import-seconds",
        type=float,
        default=0.2,
        metavar="S",
        help="maximum import time, without the agent's modules (%(default)s)",
    )
    check.set_defaults(handler=check_plugin)


def list_plugins(arguments: argparse.Namespace) -> int:
    """Print the plugins of the running agent and their latest decisions; without one, the installed plugins."""
    try:
        report = local_client.query(Path(arguments.root_dir), PLUGINS_QUERY, NoArguments(), PluginsReport)
        running = True
    except local_client.AgentUnreachable as error:
        if isinstance(error.__cause__, PermissionError):
            print(f"nodeagent: {error}", file=sys.stderr)
            return ExitCode.UNREACHABLE
        report, running = _installed(arguments.disable_plugin), False
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: failed to get the plugins: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    if arguments.names:
        report = _only(report, arguments.names)
    if arguments.output == "json":
        print_json({"running": running, **to_wire(report)})
    else:
        _print(report, running)
    failed = any(plugin.state.startswith("failed") for plugin in report.plugins)
    return ExitCode.PROBLEMS if failed else ExitCode.OK


def _only(report: PluginsReport, names: Sequence[str]) -> PluginsReport:
    """Return the part of *report* about some plugins.

    :raises PluginError: a plugin is not installed.
    """
    plugins = [each for each in report.plugins if _owner(each.name) in names]
    for name in names:
        if name not in map(_owner, (each.name for each in plugins)):
            raise PluginError(name, "is not installed")
    return PluginsReport(plugins, [each for each in report.decisions if _owner(each.plugin) in names])


def _owner(name: str) -> str:
    """Return the plugin that an object belongs to."""
    return name.partition(".")[0]


def _installed(disabled: Sequence[str]) -> PluginsReport:
    """Return the plugins that an agent in this environment would load.

    :raises PluginError: a bundled plugin cannot be loaded, or *disabled* names one that is not installed.
    """
    manager = PluginManager()
    manager.load_entry_points(disabled)
    plugins = [
        PluginLine(info.name, info.version, info.origin, list(info.hooks), info.state) for info in manager.plugins()
    ]
    return PluginsReport(plugins, [])


def change_plugin(action: PluginAction, arguments: argparse.Namespace) -> int:
    """Change a plugin of the running agent and print the result with its limits."""
    request = PluginChangeRequest(action, arguments.name)
    try:
        changed = local_client.query(Path(arguments.root_dir), CHANGE_QUERY, request, PluginChanged)
    except local_client.AgentUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    print(f"{_DONE[action]} plugin {changed.plugin} {changed.version}".rstrip())
    if changed.hooks:
        print(f"Hooks: {', '.join(hook.removeprefix('nodeagent_') for hook in changed.hooks)}")
    for note in changed.notes:
        print(note)
    return ExitCode.OK


def profile_plugin(arguments: argparse.Namespace) -> int:
    """Print the CPU time and memory of a plugin, by hook and by line."""
    request = PluginProfileRequest(arguments.name, arguments.seconds)
    try:
        root = Path(arguments.root_dir)
        profile = local_client.query(root, PROFILE_QUERY, request, PluginProfile, seconds=arguments.seconds)
    except local_client.AgentUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except local_client.AgentRequestFailed as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    if arguments.output == "json":
        print_json(to_wire(profile))
        return ExitCode.OK
    print(
        f"Plugin {profile.plugin} in {profile.seconds:g} s: {profile.cpu_seconds:.3f} s of CPU time "
        f"(agent: {profile.agent_cpu_seconds:.3f} s), {profile.allocated_bytes} bytes allocated and still in use"
    )
    tables = (
        (("HOOK", "CALLS", "CPU SECONDS"), [(h.hook, str(h.calls), f"{h.cpu_seconds:.4f}") for h in profile.hooks]),
        (("CPU SECONDS", "FUNCTION", "LINE"), [(f"{c.cpu_seconds:.4f}", c.function, c.location) for c in profile.code]),
        (("BYTES", "OBJECTS", "LINE"), [(str(a.bytes), str(a.objects), a.location) for a in profile.allocations]),
    )
    for heading, rows in tables:
        if rows:
            print()
            print_table(rows, heading)
    return ExitCode.OK


def new_plugin(arguments: argparse.Namespace) -> int:
    """Write a project and print the next steps."""
    installed = {each.name: distribution_of(each)[0] for each in importlib.metadata.entry_points(group=GROUP)}
    bundled = installed.get(arguments.name) == _BUNDLED
    directory = arguments.dir or Path(f"nodeagent-{arguments.name.replace('_', '-')}")
    try:
        check_name(arguments.name, frozenset(name for name, origin in installed.items() if origin != _BUNDLED))
        kind = ProjectKind.EXTERNAL if arguments.out_of_process else ProjectKind.MODULE
        files = write_project(arguments.name, directory, license_name=arguments.license, kind=kind)
    except ScaffoldError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    for file in files:
        print(file)
    if bundled:
        print(f"\nWhen it is installed, it replaces the bundled plugin {arguments.name}.")
    print(
        f"\nNext steps, in the Python environment of nodeagent:\n  cd {directory}\n  pip install -e '.[dev]'\n  pytest"
    )
    return ExitCode.OK


def print_protocol(_: argparse.Namespace) -> int:
    """Print the definition of the protocol."""
    print((resources.files("nodeagent.base.pluginproto") / "plugin_v1.proto").read_text(encoding="utf-8"), end="")
    return ExitCode.OK


def check_plugin(arguments: argparse.Namespace) -> int:
    """Print the findings, one per line or as a JSON list."""
    from nodeagent.authoring import check, check_external

    try:
        if (external := check_external.find_check(arguments.path)) is not None:
            if arguments.no_import:
                raise check.InvalidPluginPath("--no-import is invalid for an out-of-process plugin, which must run")
            findings = check_external.run_check(external, arguments.path)
        else:
            findings = check.check_plugin(
                arguments.path, load=not arguments.no_import, slow_seconds=arguments.import_seconds
            )
    except check.InvalidPluginPath as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    if arguments.output == "json":
        print_json([{**asdict(finding), "file": str(finding.file)} for finding in findings])
    else:
        for finding in findings:
            print(f"{finding.file}:{finding.line}: {finding.rule}: {finding.message}")
        print(f"{len(findings)} problems found" if len(findings) != 1 else "1 problem found")
    return ExitCode.PROBLEMS if findings else ExitCode.OK


def _print(report: PluginsReport, running: bool) -> None:
    if not running:
        print("The agent is not running: these plugins are installed.\n")
    rows = [
        (
            plugin.name,
            plugin.version,
            plugin.origin,
            _state(plugin),
            str(sum(hook.calls for hook in plugin.calls)),
            str(sum(hook.failures for hook in plugin.calls)),
            _seconds(max((hook.p99_seconds or 0.0 for hook in plugin.calls), default=0.0)),
            ", ".join(hook.removeprefix("nodeagent_") for hook in plugin.hooks),
        )
        for plugin in report.plugins
    ]
    headings = ("NAME", "VERSION", "ORIGIN", "STATE", "CALLS", "FAILED", "P99", "HOOKS")
    if running:
        print_table(rows, headings)
    else:  # There are no calls.
        print_table([(*row[:4], row[-1]) for row in rows], (*headings[:4], headings[-1]))
    if errors := [(plugin.name, plugin.last_error) for plugin in report.plugins if plugin.last_error]:
        print("\nLast errors")
        print_table(errors, ("PLUGIN", "ERROR"))
    if not report.decisions:
        return
    print("\nLatest decisions")
    decisions = [
        (
            _time(decision.at),
            decision.plugin,
            decision.hook.removeprefix("nodeagent_"),
            decision.subject,
            f"{decision.verdict}{f' (x{decision.count})' if decision.count > 1 else ''}",  # wording: ok
        )
        for decision in report.decisions[-_SHOWN_DECISIONS:]
    ]
    print_table(decisions, ("TIME", "PLUGIN", "HOOK", "SUBJECT", "DECISION"))


def _state(plugin: PluginLine) -> str:
    if plugin.state == "failing" and plugin.since is not None:
        return f"failing since {_time(plugin.since)}"
    if plugin.state == "quarantined" and plugin.until is not None:
        return f"quarantined until {_time(plugin.until)}"
    return plugin.state


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(seconds: float) -> str:
    """Return a duration for display, empty without calls."""
    return "" if not seconds else f"{seconds * 1000:.3g}ms" if seconds < 1 else f"{seconds:.3g}s"
