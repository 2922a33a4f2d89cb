"""``nodeagent doctor``: what is wrong with this machine as a node, and what to do; with or without a running agent.

The flags are the daemon's (``--config``, ``--kubeconfig``, ``--root-dir``, …), so that the same machine is judged. Exit
codes: 0 nothing to mend, 1 problems were found, 2 wrong usage or configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodeagent.base import identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json
from nodeagent.config.flags import add_flags, read_flags
from nodeagent.config.load import Loaded, load
from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, Severity, problem
from nodeagent.contracts.context import AgentContext
from nodeagent.errors import ConfigError
from nodeagent.plugin_settings import load_plugin_settings
from nodeagent.pluginmanager import PluginManager

CHECK_SECONDS = 15.0
_Result = tuple[str, Sequence[Finding] | None]
"""The name of a check with its findings; ``None`` when it cannot tell."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    doctor = commands.add_parser("doctor", help="look for what is wrong with this machine, and say what to do")
    doctor.add_argument("-o", "--output", choices=("text", "json"), default="text")
    add_flags(doctor)
    doctor.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Run every check, print what it found and return the exit code.

    :raises ConfigError: the configuration is wrong; with every problem.
    :raises PluginError: a plugin cannot be loaded, or fails to give its checks.
    """
    logging.getLogger("nodeagent_plugins").addHandler(logging.NullHandler())  # what matters is printed
    logging.getLogger("nodeagent").addHandler(logging.NullHandler())
    loaded = load(read_flags(arguments))
    identity.configure(loaded.settings.identity)
    results = asyncio.run(_examine(loaded))
    if arguments.output == "json":
        print_json([_wire(name, findings) for name, findings in results])
    else:
        print("\n".join(lines(results)))
    severe = any(each.severity is Severity.PROBLEM for _, findings in results for each in findings or ())
    return ExitCode.PROBLEMS if severe else ExitCode.OK


def lines(results: Sequence[_Result]) -> list[str]:
    """Return the findings as people read them: the worst first, then what is well."""
    text, found = [], [(name, each) for name, findings in results for each in findings or ()]
    for severity in Severity:
        for name, each in found:
            if each.severity is severity:
                text += [f"{severity.upper():8} {name}: {each.text}", f"{'':8} -> {each.remedy}"]
    well = [name for name, findings in results if findings is not None and not findings]
    unknown = [name for name, findings in results if findings is None]
    if text:
        text.append("")
    if well:
        text.append(f"well: {', '.join(well)}")
    if unknown:
        text.append(f"not known: {', '.join(unknown)}")
    counts = [sum(each.severity is severity for _, each in found) for severity in Severity]
    text.append(f"{_counted(counts[0], 'problem')}, {_counted(counts[1], 'warning')}, {len(results)} checks")
    return text


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


async def _examine(loaded: Loaded) -> list[_Result]:
    plugins = PluginManager()
    plugins.load_entry_points(loaded.settings.disabled_plugins)
    async with contextlib.AsyncExitStack() as cleanup, TaskOwner("doctor") as tasks:
        context = AgentContext(
            config=loaded.config,
            gates=loaded.gates,
            settings=loaded.settings,
            clock=SystemClock(),
            tasks=tasks,
            cleanup=cleanup,
            plugin_settings=load_plugin_settings(loaded.settings.plugin_config, plugins),
        )
        broken: list[_Result] = []
        if loaded.settings.kubeconfig:
            from nodeagent.apiclient import connect

            try:
                context.api = client = connect(Path(loaded.settings.kubeconfig), loaded.config, context.clock)
                cleanup.push_async_callback(client.close)
            except ConfigError as error:
                broken.append(("kubeconfig", [problem(str(error), "correct the file that --kubeconfig names")]))
        context.runtime = plugins.provide("nodeagent_provide_runtime", context=context)
        context.images = plugins.provide("nodeagent_provide_image_service", context=context)
        answers = plugins.provide_all("nodeagent_provide_node_checks", context=context)
        checks: list[NodeCheck] = [check for answer in answers for check in answer.value]
        return broken + list(await asyncio.gather(*map(run, checks)))


async def run(check: NodeCheck) -> _Result:
    """Return what *check* found; that it failed itself is a finding too."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            findings = await check.run()
        if not isinstance(findings, Sequence) or not all(isinstance(each, Finding) for each in findings):
            raise TypeError(f"answered {findings!r:.80}, which is no sequence of Finding")
        return check.name, findings
    except CheckInconclusive:
        return check.name, None
    except TimeoutError:
        text = f"gave no answer within {CHECK_SECONDS:g} s"
    except Exception as error:
        text = f"could not be done: {error!r}"
    return check.name, [problem(text, "see whether what it looks at hangs; report it if the check itself is wrong")]


def _wire(name: str, findings: Sequence[Finding] | None) -> dict[str, Any]:
    return {
        "check": name,
        "known": findings is not None,
        "findings": [{"severity": each.severity, "text": each.text, "remedy": each.remedy} for each in findings or ()],
    }
