"""Capability ``node_checks``: ``nodeagent doctor`` connects to the running plugin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nodeagent.base.plugin_rpc import RpcError, connect, methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.checks import Finding, NodeCheck, Severity, problem
from nodeagent_plugins.external_plugins.hook_calls import MAX_MESSAGE

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["NodeChecks"])
_SECONDS = 10.0
_SEVERITIES = {api.PROBLEM: Severity.PROBLEM, api.WARNING: Severity.WARNING}


def node_check(plugin: str, socket: str) -> NodeCheck:
    """Return the check of the plugin that serves *socket*."""
    return NodeCheck(plugin, partial(check_node, plugin, socket))


async def check_node(plugin: str, socket: str) -> Sequence[Finding]:
    """Return the findings of the plugin; a plugin that does not respond is a finding."""
    try:
        response = await call_check_node(socket)
    except RpcError as error:
        text = f"plugin {plugin} does not respond on {socket}: {error.code}: {error.details}"
        return [problem(text, "check that the agent runs, and see nodeagent plugins list")]
    return _findings(plugin, response)


async def call_check_node(socket: str) -> Any:
    """Return the response of the plugin that serves *socket*.

    :raises RpcError: the plugin does not respond.
    """
    async with connect(socket, _SECONDS) as connection:
        return await connection.call(_METHODS["CheckNode"], api.CheckNodeRequest())


def _findings(plugin: str, response: Any) -> list[Finding]:
    findings = []
    for each in response.findings:
        if each.severity not in _SEVERITIES:
            text = f"plugin {plugin} returned the unknown severity {each.severity}: {each.text[:MAX_MESSAGE]}"
            findings.append(problem(text, "correct the plugin"))
            continue
        findings.append(Finding(_SEVERITIES[each.severity], each.text[:MAX_MESSAGE], each.remedy[:MAX_MESSAGE]))
    return findings
