"""``nodeagent plugins``: what is loaded, from where, with which hooks, and what it decided."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeagent.cli.exit_codes import ExitCode
from nodeagent.errors import PluginError
from nodeagent.plugin_report import read_report
from nodeagent.pluginmanager import PluginManager

DEFAULT_ROOT = "/var/lib/kubelet"
_SHOWN_DECISIONS = 20


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    parser = commands.add_parser("plugins", help="list the plugins of this installation")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="name, version, origin, hooks and state of every plugin")
    listing.add_argument("-o", "--output", choices=("table", "json"), default="table")
    listing.add_argument("--root-dir", default=DEFAULT_ROOT, help="root directory of the running agent")
    listing.add_argument("--disable-plugin", action="append", default=[], metavar="NAME")
    listing.set_defaults(handler=list_plugins)


def list_plugins(arguments: argparse.Namespace) -> int:
    """Print every installed plugin and the last decisions of a running agent's plugins."""
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
        json.dump({"plugins": plugins, "decisions": decisions}, sys.stdout, indent=2)
        print()
    else:
        _print_table(plugins, decisions)
    return ExitCode.OK


def _print_table(plugins: list[dict[str, Any]], decisions: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False)
    for column in ("NAME", "VERSION", "ORIGIN", "STATE", "HOOKS"):
        table.add_column(column, overflow="fold")
    for plugin in plugins:
        hooks = ", ".join(hook.removeprefix("nodeagent_") for hook in plugin["hooks"])
        table.add_row(plugin["name"], plugin["version"], plugin["origin"], plugin["state"], hooks)
    console.print(table)
    if not decisions:
        return
    console.print("\nLast decisions")
    table = Table(box=None, pad_edge=False)
    for column in ("TIME", "PLUGIN", "HOOK", "SUBJECT", "VERDICT"):
        table.add_column(column, overflow="fold")
    for decision in decisions[-_SHOWN_DECISIONS:]:
        moment = datetime.fromtimestamp(decision["at"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        hook = decision["hook"].removeprefix("nodeagent_")
        table.add_row(moment, decision["plugin"], hook, decision["subject"], decision["verdict"])
    console.print(table)
