"""Capability ``node_report``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.names import label_value_problems, qualified_name_problems
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.base.quantity import parse_quantity
from nodeagent.contracts.node import NodeConditionReport, NodeReport, NodeTaint
from nodeagent_plugins.external_plugins.hook_calls import MAX_MESSAGE, HookCalls

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["NodeReport"])
_HOOK = "nodeagent_report_node"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUEST = api.ReportNodeRequest()


class NodeReporter:
    """Contributes labels, taints, conditions and extended resources to the node object."""

    def __init__(self, call: HookCalls) -> None:
        self._call = call

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport | None:
        if self._call.is_starting:
            return None  # The status is computed again once it is connected.
        response = await self._call(_HOOK, _METHODS["ReportNode"], _REQUEST)
        if problem := next(_problems(response), ""):
            raise self._call.invalid(_HOOK, problem)
        resources = dict(response.extended_resources)
        return NodeReport(
            capacity=resources,
            allocatable=resources,
            conditions=[
                NodeConditionReport(each.type, each.status, each.reason, each.message[:MAX_MESSAGE])
                for each in response.conditions
            ],
            not_ready=[text[:MAX_MESSAGE] for text in response.not_ready],
            labels=dict(response.labels),
            taints=[NodeTaint(each.key, each.value, each.effect) for each in response.taints],
        )


def _problems(response: Any) -> Iterator[str]:
    """Yield the errors of a response, which the API server would reject together with the complete status."""
    for key, value in response.labels.items():
        if qualified_name_problems(key) or label_value_problems(value):
            yield f"label {key[:80]!r} with value {value[:80]!r}"
    for taint in response.taints:
        invalid = qualified_name_problems(taint.key) or label_value_problems(taint.value)
        if invalid or taint.effect not in _EFFECTS:
            yield f"taint {taint.key[:80]!r} with value {taint.value[:80]!r} and effect {taint.effect[:80]!r}"
    for condition in response.conditions:
        if qualified_name_problems(condition.type) or condition.type == "Ready" or not condition.reason:
            yield f"condition of type {condition.type[:80]!r} with reason {condition.reason[:80]!r}"
    for name, amount in response.extended_resources.items():
        if qualified_name_problems(name) or "/" not in name or not _is_count(amount):
            yield f"extended resource {name[:80]!r} with quantity {amount[:80]!r}"


def _is_count(text: str) -> bool:
    """Return whether a quantity is a non-negative integer, as Kubernetes requires of extended resources."""
    try:
        amount = parse_quantity(text)
    except ValueError:
        return False
    return amount.milli_value() >= 0 and amount.milli_value() % 1000 == 0
