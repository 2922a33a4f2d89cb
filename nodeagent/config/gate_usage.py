"""Usage of feature gates: gates that are accepted but have no effect."""

from __future__ import annotations

from nodeagent.config.features import KNOWN, build_gates
from nodeagent.contracts.configuration import NodeAgentConfiguration

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
"""Feature gates that the code reads. Setting another gate has no effect; a locked gate cannot be set."""


def ineffective_settings(config: NodeAgentConfiguration) -> list[str]:
    """Return the paths of the feature gates that *config* changes from their default without an effect."""
    defaults = dict(build_gates({}))
    return [
        f"featureGates.{gate.name}"
        for gate, enabled in build_gates(config.feature_gates)
        if gate.name not in GATES_IN_USE and enabled != defaults[gate]
    ]


def all_ineffective_settings() -> list[str]:
    """Return the paths of all feature gates without an effect."""
    gates = sorted(gate.name for gate in KNOWN if gate.name not in GATES_IN_USE and not gate.locked)
    return [f"featureGates.{name}" for name in gates]
