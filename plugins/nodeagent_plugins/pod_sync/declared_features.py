"""Features of pods that this node declares: for the API server's checks of resizes, and for the scheduler."""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.base.gates import FeatureGates
from nodeagent.contracts.node import NodeReport

_RESIZES = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers")
_RESTART_ALL = "RestartAllContainersOnContainerExits"


class DeclaredFeatures:
    """Reports the features whose gates are enabled."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport | None:
        gates = self._gates
        if not gates.enabled("NodeDeclaredFeatures"):
            return None
        names = [name for name in _RESIZES if gates.enabled(name)] if gates.enabled("InPlacePodVerticalScaling") else []
        if gates.enabled("ContainerRestartRules") and gates.enabled(_RESTART_ALL):
            names.append(_RESTART_ALL)
        return NodeReport(declared_features=names)
