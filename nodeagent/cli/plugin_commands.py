"""Commands of plugins: entry points of group ``nodeagent.commands``, each a function of its arguments."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping, Sequence

from nodeagent.cli.exit_codes import ExitCode
from nodeagent.errors import NodeAgentError
from nodeagent.pluginmanager.discovery import distribution_of

GROUP = "nodeagent.commands"


def plugin_commands() -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the installed commands by name; of several with one name, the first in order of their distributions."""
    entries = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda each: distribution_of(each)[0])
    return {entry.name: entry for entry in reversed(entries)}


def describe(entry: importlib.metadata.EntryPoint) -> str:
    """Return the distribution of a command, for display."""
    distribution, version = distribution_of(entry)
    return f"{distribution} {version}".strip()


def run(entry: importlib.metadata.EntryPoint, arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; an error of the agent is printed, any other is an error of the plugin."""
    try:
        return int(entry.load()(arguments) or ExitCode.OK)
    except NodeAgentError as error:
        print(f"nodeagent {entry.name}: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    except ImportError as error:
        print(f"nodeagent {entry.name}: failed to import {entry.value} of {describe(entry)}: {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
