"""Pods of others while a plugin misbehaves, and the time until the agent names the plugin."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure
from benchmarks.node import Node, bench_pod, started_node
from nodeagent import local_client
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.plugin_report import (
    PLUGINS_QUERY,
    PROFILE_QUERY,
    PluginProfile,
    PluginProfileRequest,
    PluginsReport,
)
from tests.integration.agent.test_plugin_failures import FAILURES, GREEDY, PLUGIN
from tests.integration.plugins.test_example_policy import Environment
from tests.integration.programs import wait_until

PODS = 15
POD_SECONDS, NAMED_SECONDS, PROFILE_SECONDS = 60.0, 60.0, 2.0
NORMAL, RESOURCES = "normal", "greedy"
TITLES = {
    NORMAL: "all plugins behave",
    "hangs": "a hook hangs",
    "blocks": "a hook blocks the event loop",
    "swallows": "a hook ignores its cancellation",
    "exits": "a hook raises SystemExit",
    "raises": "a hook raises an error",
    RESOURCES: "a loop leaks memory and uses CPU time",
}
FIGURES = (
    *(
        figure
        for name, title in TITLES.items()
        for figure in (
            Figure(f"{name}_median", f"{title}: creation until Running of other pods, median", "s"),
            Figure(f"{name}_max", f"{title}: maximum", "s"),
            *([Figure(f"{name}_named", f"{title}: until the agent names the plugin", "s")] if name in FAILURES else ()),
        )
    ),
    Figure(f"{RESOURCES}_named", f"{TITLES[RESOURCES]}: duration of a profile of {PROFILE_SECONDS:g} s", "s"),
)


def run() -> dict[str, float]:
    with (
        _node() as (node, trigger),
        PodWatch(node.server) as watch,
        Client(node.server) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        figures = _measured(node, watch, client, NORMAL)
        for name in FAILURES:
            started = time.monotonic()
            client.create_pod(bench_pod(name, nodeName=node.agent.node))
            named = threads.submit(_named_after, node, name, started)
            figures |= _measured(node, watch, client, name)
            figures[f"{name}_named"] = named.result()
            client.delete_pod(name)
        trigger.touch()
        figures |= _measured(node, watch, client, RESOURCES)
        return figures | {f"{RESOURCES}_named": _profile_seconds(node)}


@contextlib.contextmanager
def _node() -> Iterator[tuple[Node, Path]]:
    """Start a node with the plugins; also return the file with which the use of resources starts."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as temporary:
        directory = Path(temporary)
        environment, trigger = Environment(directory / "venv"), directory / "trigger"
        for name, body in FAILURES.items():
            environment.add_module(name, PLUGIN.format(name=name, body=body.strip()))
        environment.add_module(RESOURCES, GREEDY.format(trigger=trigger))
        with started_node(with_api=True, python=environment.python) as node:
            yield node, trigger


def _measured(node: Node, watch: PodWatch, client: Client, label: str) -> dict[str, float]:
    """Create pods one after another and return median and maximum of the time until they are running."""
    seconds = []
    for number in range(PODS):
        name = f"bench-{label}-{number:02d}"
        started = time.monotonic()
        client.create_pod(bench_pod(name, nodeName=node.agent.node))
        watch.wait_running([name], POD_SECONDS)
        seconds.append(watch.running_at[name] - started)
    for number in range(PODS):
        client.delete_pod(f"bench-{label}-{number:02d}")
    watch.wait_deleted([f"bench-{label}-{number:02d}" for number in range(PODS)], POD_SECONDS)
    return {f"{label}_median": statistics.median(seconds), f"{label}_max": max(seconds)}


def _named_after(node: Node, plugin: str, started: float) -> float:
    """Return the seconds from *started* until the agent reports an error of the plugin and has logged its name."""

    def is_named() -> bool:
        report = local_client.query(node.agent.root, PLUGINS_QUERY, NoArguments(), PluginsReport)
        (line,) = [each for each in report.plugins if each.name == plugin]
        log = node.agent.log.read_text()
        return bool(line.last_error) and (f'plugin="{plugin}"' in log or f"plugin {plugin}:" in log)

    wait_until(is_named, f"{plugin} is named", NAMED_SECONDS)
    return time.monotonic() - started


def _profile_seconds(node: Node) -> float:
    """Return the duration of a profile that names lines of the plugin; memory is traced only during a profile."""
    started = time.monotonic()
    request = PluginProfileRequest(RESOURCES, PROFILE_SECONDS)
    profile = local_client.query(node.agent.root, PROFILE_QUERY, request, PluginProfile, seconds=PROFILE_SECONDS)
    assert profile.code, profile
    return time.monotonic() - started
