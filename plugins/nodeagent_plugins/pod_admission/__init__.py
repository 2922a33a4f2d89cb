"""Pod admission by supported fields and node properties: operating system, resources, affinity, name, ports, taints.

For a critical pod that only lacks resources, pods of lower priority are preempted.

The scheduler has usually checked the same; the node decides, because it has the current state.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Counter
from nodeagent.base.quantity import Quantity
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.pods import KillReason, Rejection
from nodeagent.contracts.reservations import pod_capacity, without_reserved
from nodeagent.model.extended_resources import provided_by_claims
from nodeagent.model.pod import Pod
from nodeagent.model.qos import is_critical
from nodeagent.model.resources import CPU, MEMORY, PODS, Amounts, amounts
from nodeagent_plugins.pod_admission.apparmor import AppArmorAdmission
from nodeagent_plugins.pod_admission.predicates import (
    NodeView,
    UsedResources,
    check_os,
    check_predicates,
    check_sidecars,
    lacking,
    out_of,
    requests_in_nanos,
)
from nodeagent_plugins.pod_admission.preemption import victims
from nodeagent_plugins.pod_admission.runtime_features import RuntimeFeatureAdmission
from nodeagent_plugins.pod_admission.unsupported import FieldAdmission

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

_OS = "linux"
_PREEMPTED = "Preempted in order to admit critical pod"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}

PREEMPTIONS = Counter(
    "preemptions", "Cumulative number of pod preemptions by preemption resource", ("preemption_signal",)
)


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    plugins.register(FieldAdmission(context), name="pod_admission.fields")
    plugins.register(AppArmorAdmission(context), name="pod_admission.apparmor")
    plugins.register(RuntimeFeatureAdmission(context), name="pod_admission.runtime_features")
    plugins.register(NodeAdmission(context), name="pod_admission.node")


class NodeAdmission:
    """Rejects pods that do not fit this node; runs after the other plugins."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._used = UsedResources()
        self._preempted: set[str] = set()
        """UIDs of pods being preempted, whose resources are already assigned."""

    @hookimpl(trylast=True)
    async def nodeagent_admit_pod(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        node = self._view()
        if self._preempted:
            self._preempted.intersection_update(other.uid for other in active)
        excluded = {pod.uid, *self._preempted}
        others = [other for other in active if other.metadata.uid not in excluded]
        return (
            check_os(pod, node.labels)
            or check_sidecars(pod, allowed=self._context.gates.enabled("SidecarContainers"))
            or self._check_room(pod, node, others)
        )

    def _check_room(self, pod: Pod, node: NodeView, others: Sequence[Pod]) -> Rejection | None:
        used, decided = self._used.of(others), {*self._context.devices.decided(pod.uid), *provided_by_claims(pod)}
        if decided:  # Reserved by the device manager or provided by a claim, or the pod waits for them.
            room = {name: amount for name, amount in node.allocatable.items() if name not in decided}
            node = dataclasses.replace(node, allocatable=room)
        short, mismatch = lacking(pod, node, used), check_predicates(pod, node, others)
        critical = is_critical(pod)
        if not short or (critical and mismatch is not None):  # Preemption frees resources only.
            return mismatch
        ending = victims(pod, others, short, requests_in_nanos) if critical else []
        if not ending:
            return out_of(next(iter(short)), pod, node, used)
        for victim in ending:
            _log.log(
                v_level(3),
                "Preempting pod to free up resources",
                extra={"pod": victim.full_name, "podUID": victim.uid, "insufficientResources": ", ".join(short)},
            )
            self._preempted.add(victim.uid)
            PREEMPTIONS.inc(next(iter(short)))
            self._context.recorder.record(victim.reference(), EventType.WARNING, "Preempting", _PREEMPTED)
            self._context.pods.kill(
                victim.uid, KillReason.PREEMPTED, _PREEMPTED, status_reason=KillReason.PREEMPTED.value
            )
        return None

    def _view(self) -> NodeView:
        """Return the node as in the API, or as configured before it is available."""
        node: Mapping[str, Any] = self._context.node() or {}
        allocatable = (node.get("status") or {}).get("allocatable")
        config = self._context.config
        room = amounts(allocatable) if allocatable else own_allocatable(config)
        return NodeView(
            name=self._context.node_name,
            labels=(node.get("metadata") or {}).get("labels") or self._own_labels(),
            taints=(node.get("spec") or {}).get("taints") or (),
            allocatable={**room, PODS: Quantity(pod_capacity(config, cores=os.cpu_count() or 1))},
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
    """Return CPU and memory of the host minus the reservations."""
    machine = {
        CPU: Quantity(os.cpu_count() or 1),
        MEMORY: Quantity(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
    }
    return without_reserved(machine, config)
