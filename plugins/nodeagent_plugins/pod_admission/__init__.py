"""Admission by what the node is: operating system, room, affinity, name, ports and taints.

The scheduler has usually checked the same before; the node decides, because it knows what runs on it now.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodeagent_plugins.pod_admission.predicates import NodeView, UsedResources, check_node, check_os, check_sidecars

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.base.quantity import Quantity
from nodeagent.config.reservations import without_reserved
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent.model.resources import CPU, MEMORY, Amounts, amounts

if TYPE_CHECKING:
    from nodeagent.pluginmanager import PluginManager

_OS = "linux"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


@hookimpl
def nodeagent_configure(context: AgentContext, plugins: PluginManager) -> None:
    plugins.register(NodeAdmission(context), name="pod_admission.node")


class NodeAdmission:
    """Refuses pods that do not fit this node; asked last, when nobody else has refused."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._used = UsedResources()

    @hookimpl(trylast=True)
    async def nodeagent_admit_pod(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        node = self._view()
        others = [other for other in active if other.uid != pod.uid]
        return (
            check_os(pod, node.labels)
            or check_sidecars(pod, allowed=self._context.gates.enabled("SidecarContainers"))
            or check_node(pod, node, others, self._used)
        )

    def _view(self) -> NodeView:
        """Return the node as the API shows it, or as the configuration tells while it shows nothing."""
        node: Mapping[str, Any] = self._context.node() or {}
        allocatable = (node.get("status") or {}).get("allocatable")
        return NodeView(
            name=self._context.node_name,
            labels=(node.get("metadata") or {}).get("labels") or self._own_labels(),
            taints=(node.get("spec") or {}).get("taints") or (),
            allocatable=amounts(allocatable) if allocatable else own_allocatable(self._context.config),
        )

    def _own_labels(self) -> dict[str, str]:
        label = identity.current().label
        machine = os.uname().machine
        return {
            label("hostname"): self._context.node_name,
            label("os"): _OS,
            label("arch"): _ARCHITECTURES.get(machine, machine),
            **self._context.settings.node_labels,
        }


def own_allocatable(config: NodeAgentConfiguration) -> Amounts:
    """Return cpu and memory of the machine less what is reserved."""
    machine = {
        CPU: Quantity(os.cpu_count() or 1),
        MEMORY: Quantity(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
    }
    return without_reserved(machine, config)
