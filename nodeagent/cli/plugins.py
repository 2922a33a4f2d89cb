"""``nodeagent plugins``: list plugins and their decisions, generate a plugin project, check a plugin.

Exit codes: 0 done without findings, 1 ``check`` found problems or ``list`` failed to load a plugin, 2 the name, the
directory or the path is invalid and nothing was written or checked.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeagent.authoring.scaffold import LICENSES, ScaffoldError, check_name, write_project
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.errors import PluginError
from nodeagent.plugin_report import read_report
from nodeagent.pluginmanager import GROUP, PluginManager

DEFAULT_ROOT = "/var/lib/kubelet"
_SHOWN_DECISIONS = 20


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("plugins", help="list the installed plugins, generate or check a plugin")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list name, version, origin, hooks and state of all plugins")
    listing.add_argument("-o", "--output", choices=("table", "json"), default="table")
    listing.add_argument("--root-dir", default=DEFAULT_ROOT, help="root directory of the running agent")
    listing.add_argument("--disable-plugin", action="append", default=[], metavar="NAME")
    listing.set_defaults(handler=list_plugins)
    new = actions.add_parser("new", help="generate the project of a new plugin, with tests")
    new.add_argument("name", metavar="NAME", help="the plugin's name in settings, listings and events")
    new.add_argument("--dir", type=Path, metavar="D", help="directory of the project (default: ./nodeagent-NAME)")
    new.add_argument("--license", choices=LICENSES, default=LICENSES[0], help="license of the project (%(default)s)")
    new.set_defaults(handler=new_plugin)
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
    """Print the installed plugins and the latest decisions of the running agent's plugins."""
    manager = PluginManager()
    try:
        manager.load_entry_points(arguments.disable_plugin)
    except PluginError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    report = read_report(Path(arguments.root_dir))
    running = {plugin["name"]: plugin for plugin in report.get("plugins", ())}
    plugins = []
    for info in manager.plugins():
        plugin = asdict(info)
        plugin["stats"] = running.get(info.name, {}).get("stats", {})
        plugins.append(plugin)
    plugins.extend(plugin for name, plugin in running.items() if name not in {info.name for info in manager.plugins()})
    plugins.sort(key=lambda plugin: plugin["name"])
    decisions = list(report.get("decisions", ()))
    if arguments.output == "json":
        print_json({"plugins": plugins, "decisions": decisions})
    else:
        _print(plugins, decisions)
    return ExitCode.OK


def new_plugin(arguments: argparse.Namespace) -> int:
    """Write a project and print the next steps."""
    installed = {entry.name for entry in importlib.metadata.entry_points(group=GROUP)}
    directory = arguments.dir or Path(f"nodeagent-{arguments.name.replace('_', '-')}")
    try:
        check_name(arguments.name, frozenset(installed))
        files = write_project(arguments.name, directory, license_name=arguments.license)
    except ScaffoldError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    for file in files:
        print(file)
    print(
        f"\nNext steps, in the Python environment of nodeagent:\n  cd {directory}\n  pip install -e '.[dev]'\n  pytest"
    )
    return ExitCode.OK


def check_plugin(arguments: argparse.Namespace) -> int:
    """Print the findings, one per line or as a JSON list."""
    from nodeagent.authoring import check

    try:
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


def _print(plugins: list[dict[str, Any]], decisions: list[dict[str, Any]]) -> None:
    rows = [
        (
            plugin["name"],
            plugin["version"],
            plugin["origin"],
            plugin["state"],
            ", ".join(hook.removeprefix("nodeagent_") for hook in plugin["hooks"]),
        )
        for plugin in plugins
    ]
    print_table(rows, ("NAME", "VERSION", "ORIGIN", "STATE", "HOOKS"))
    if not decisions:
        return
    print("\nLatest decisions")
    rows = [
        (
            datetime.fromtimestamp(decision["at"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            decision["plugin"],
            decision["hook"].removeprefix("nodeagent_"),
            decision["subject"],
            decision["verdict"],
        )
        for decision in decisions[-_SHOWN_DECISIONS:]
    ]
    print_table(rows, ("TIME", "PLUGIN", "HOOK", "SUBJECT", "DECISION"))
