"""``nodeagent doctor``: check this host for problems as a node, and print remedies; does not need a running agent.

Accepts the flags of the daemon (``--config``, ``--kubeconfig``, ``--root-dir``, …), so that the checks use the same
configuration. ``--cis`` evaluates the CIS Kubernetes benchmark for worker nodes instead. Exit codes: 0 no problems, 1
problems were found, 2 usage error or invalid configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nodeagent import local_client
from nodeagent.base import identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, printable
from nodeagent.components import provide_runtime
from nodeagent.config.flags import add_flags, read_flags
from nodeagent.config.load import Loaded, load
from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, Severity, problem
from nodeagent.contracts.context import ApiContext
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.plugin_report import PLUGINS_QUERY, PluginsReport
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.plugin_context import new_context
from nodeagent.plugin_settings import load_plugin_config
from nodeagent.pluginmanager import GROUP, PluginManager

CHECK_SECONDS = 15.0
_Result = tuple[str, Sequence[Finding] | None]
"""The name of a check with its findings; ``None`` if the check is inconclusive."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    doctor = commands.add_parser("doctor", help="check this host for problems and print remedies")
    doctor.add_argument("-o", "--output", choices=("text", "json"), default="text")
    doctor.add_argument("--cis", action="store_true", help="evaluate the CIS Kubernetes benchmark for worker nodes")
    doctor.add_argument(
        "--host-root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="with --cis: root directory of the host, for example of a mount in a container (default: %(default)s)",
    )
    add_flags(doctor)
    doctor.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Run every check, print the findings and return the exit code.

    :raises ConfigError: the configuration is invalid; contains all problems.
    :raises PluginError: a bundled plugin cannot be loaded, or failed to provide its checks.
    """
    logging.getLogger("nodeagent_plugins").addHandler(logging.NullHandler())  # The findings contain the failures.
    logging.getLogger("nodeagent").addHandler(logging.NullHandler())
    if arguments.cis:
        return _show_benchmark(arguments)
    loaded = load(read_flags(arguments))
    identity.configure(loaded.settings.identity)
    results = asyncio.run(_run_checks(loaded))
    if arguments.output == "json":
        print_json([_wire(name, findings) for name, findings in results])
    else:
        print("\n".join(map(printable, lines(results))))
    severe = any(each.severity is Severity.PROBLEM for _, findings in results for each in findings or ())
    return ExitCode.PROBLEMS if severe else ExitCode.OK


def _show_benchmark(arguments: argparse.Namespace) -> int:
    """Print the result of each item of the benchmark; without flags of the daemon, those of its unit are used."""
    from nodeagent.cli.cis import items, report
    from nodeagent.cli.cis.installation import inspect_installation

    specified = any(name.startswith("flag:") and value is not None for name, value in vars(arguments).items())
    overrides = vars(arguments).get("flag:hostname-override") is not None
    flags = read_flags(arguments) if specified else None
    results = items.evaluate(inspect_installation(arguments.host_root, flags, overrides_node_name=overrides))
    if arguments.output == "json":
        print_json(report.wire(results))
    else:
        print("\n".join(report.lines(results)))
    failed = any(result.status is items.Status.FAIL for result in results)
    return ExitCode.PROBLEMS if failed else ExitCode.OK


def lines(results: Sequence[_Result]) -> list[str]:
    """Return the findings as text: the most severe first, then the names of successful and inconclusive checks."""
    text, named = [], [(name, each) for name, findings in results for each in findings or ()]
    for severity in Severity:
        for name, each in named:
            if each.severity is severity:
                text += [f"{severity.upper():8} {name}: {each.text}", f"{'':8} -> {each.remedy}"]
    passed = [name for name, findings in results if findings is not None and not findings]
    unknown = [name for name, findings in results if findings is None]
    if text:
        text.append("")
    if passed:
        text.append(f"OK: {', '.join(passed)}")
    if unknown:
        text.append(f"UNKNOWN: {', '.join(unknown)}")
    counts = [sum(each.severity is severity for _, each in named) for severity in Severity]
    text.append(f"{_counted(counts[0], 'problem')}, {_counted(counts[1], 'warning')}, {len(results)} checks")
    return text


async def check_plugins(root: Path) -> Sequence[Finding]:
    """Return the plugins of the running agent that fail.

    :raises CheckInconclusive: no agent is running, or this user has no access to it.
    """
    try:
        report = await asyncio.to_thread(local_client.query, root, PLUGINS_QUERY, NoArguments(), PluginsReport)
    except NodeAgentError as error:
        raise CheckInconclusive from error
    findings = {}
    installed = importlib.metadata.entry_points(group=GROUP).names
    for plugin in report.plugins:
        name = plugin.name.partition(".")[0]  # All objects of a plugin fail together.
        if name in installed:
            remedy = f"correct the plugin, or disable it with --disable-plugin {name}"
        else:
            remedy = f"correct the plugin, or remove {name} from --plugin-config; until then, disable it with "
            remedy += f"`nodeagent plugins disable {name}`"
        if plugin.state.startswith("failed"):
            findings[name] = problem(f"plugin {name} was skipped: {plugin.state}", remedy)
        elif plugin.state in ("failing", "quarantined"):
            findings[name] = problem(f"plugin {name} is {plugin.state}: {plugin.last_error}", remedy)
    return list(findings.values())


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


async def _run_checks(loaded: Loaded) -> list[_Result]:
    plugins = PluginManager()
    plugins.load_entry_points(loaded.settings.disabled_plugins)
    async with contextlib.AsyncExitStack() as cleanup, TaskOwner("doctor") as tasks:
        context = new_context(
            loaded.config,
            loaded.gates,
            loaded.settings,
            clock=SystemClock(),
            tasks=tasks,
            cleanup=cleanup,
            plugin_settings=load_plugin_config(loaded.settings.plugin_config, plugins).settings,
        )
        connected = context.stage(ApiContext, api=None, new_api=None)
        failed: list[_Result] = []
        if loaded.settings.kubeconfig:
            from nodeagent.apiclient import connect

            try:
                client = connect(Path(loaded.settings.kubeconfig), loaded.config, context.clock)
                connected = context.stage(ApiContext, api=client, new_api=client.with_rate)
                cleanup.push_async_callback(client.close)
            except ConfigError as error:
                failed.append(("kubeconfig", [problem(str(error), "correct the file specified by --kubeconfig")]))
        runtime = provide_runtime(connected, plugins)
        provided = plugins.provide_all("nodeagent_provide_node_checks", context=runtime)
        failed += [
            (info.name, [problem(info.state, f"correct the plugin, or disable it with --disable-plugin {info.name}")])
            for info in plugins.plugins()
            if info.failed
        ]
        checks: list[NodeCheck] = [check for result in provided for check in result.value]
        checks.append(NodeCheck("plugins", partial(check_plugins, Path(loaded.settings.root_dir))))
        return failed + list(await asyncio.gather(*map(run, checks)))


async def run(check: NodeCheck) -> _Result:
    """Return the findings of *check*; a failure or a timeout of the check is a finding, too."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            findings = await check.run()
        if not isinstance(findings, Sequence) or not all(isinstance(each, Finding) for each in findings):
            raise TypeError(f"returned {findings!r:.80} instead of a sequence of Finding")
        return check.name, findings
    except CheckInconclusive:
        return check.name, None
    except TimeoutError:
        text = f"check timed out after {CHECK_SECONDS:g} s"
    except Exception as error:
        text = f"check failed: {error!r}"
    return check.name, [problem(text, "check whether its subject hangs; report a bug if the check itself is broken")]


def _wire(name: str, findings: Sequence[Finding] | None) -> dict[str, Any]:
    return {
        "check": name,
        "known": findings is not None,
        "findings": [{"severity": each.severity, "text": each.text, "remedy": each.remedy} for each in findings or ()],
    }
