"""What is checked already and does nothing yet, so that nobody believes otherwise.

A field, flag or gate leaves these lists with the change that gives it its behaviour; nothing ever enters them.
"""

from __future__ import annotations

from nodeagent.config.codec import encode
from nodeagent.config.features import KNOWN, build_gates
from nodeagent.config.fields import all_fields
from nodeagent.config.types import NodeAgentConfiguration

FIELDS: frozenset[str] = frozenset()
"""Top-level fields that are validated and change nothing yet."""

FLAGS: frozenset[str] = frozenset()
"""Flags without a field that are checked and change nothing yet."""

GATES_IN_USE = frozenset(
    {
        "CPUManagerPolicyAlphaOptions",
        "CPUManagerPolicyBetaOptions",
        "CPUManagerPolicyOptions",
        "ContainerCheckpoint",
        "CustomCPUCFSQuotaPeriod",
        "EventedPLEG",
        "ExecProbeTimeout",
        "GracefulNodeShutdown",
        "GracefulNodeShutdownBasedOnPodPriority",
        "ImageMaximumGCAge",
        "LoggingAlphaOptions",
        "LoggingBetaOptions",
        "MemoryManager",
        "MemoryQoS",
        "NodeAgentInUserNamespace",
        "NodeAgentSeparateDiskGC",
        "NodeAgentCgroupDriverFromCRI",
        "NodeAgentTracing",
        "NodeLogQuery",
        "NodeSwap",
        "PodAndContainerStatsFromCRI",
        "PodDisruptionConditions",
        "PodLifecycleSleepAction",
        "PodReadyToStartContainersCondition",
        "ProcMountType",
        "QOSReserved",
        "RotateNodeAgentServerCertificate",
        "SidecarContainers",
        "SizeMemoryBackedVolumes",
        "TopologyManager",
        "TopologyManagerPolicyBetaOptions",
        "TopologyManagerPolicyOptions",
    }
)
"""Feature gates that something reads; every other one changes nothing when set. A locked one cannot be set."""


def unimplemented(config: NodeAgentConfiguration) -> list[str]:
    """Return the paths of what *config* sets to other than the default and that has no effect yet."""
    default = NodeAgentConfiguration()
    fields = all_fields()
    found = []
    for path in sorted(FIELDS):
        attribute = fields[path].attributes[0]
        ours, usual = getattr(config, attribute), getattr(default, attribute)
        if encode(ours) != encode(usual):
            found.append(path)
    usual_gates = dict(build_gates({}))
    state = build_gates(config.feature_gates)
    found += [
        f"featureGates.{gate.name}" for gate, on in state if gate.name not in GATES_IN_USE and on != usual_gates[gate]
    ]
    return found


def all_unimplemented() -> list[str]:
    """Return everything that has no effect yet: fields, ``--flags`` and gates."""
    gates = sorted(gate.name for gate in KNOWN if gate.name not in GATES_IN_USE and not gate.locked)
    return [*sorted(FIELDS), *(f"--{name}" for name in sorted(FLAGS)), *(f"featureGates.{name}" for name in gates)]
