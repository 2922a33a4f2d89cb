"""Features of pods that this node declares, so that the API server accepts resizes that use them."""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.base.gates import FeatureGates
from nodeagent.contracts.node import NodeReport

_RESIZES = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers")


class DeclaredFeatures:
    """Reports the features whose gates are enabled."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport | None:
        if not self._gates.enabled("NodeDeclaredFeatures") or not self._gates.enabled("InPlacePodVerticalScaling"):
            return None
        return NodeReport(declared_features=[name for name in _RESIZES if self._gates.enabled(name)])
