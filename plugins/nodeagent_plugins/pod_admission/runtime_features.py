"""Admission by features of the container runtime."""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import RuntimeStatus
from nodeagent.model.pod import Pod
from nodeagent.model.unsupported_fields import FIELD_NOT_SUPPORTED
from nodeagent_plugins.pod_admission.running import is_running


class RuntimeFeatureAdmission:
    """Rejects pods that rely on a feature that the runtime would silently ignore, or fail at with an unrelated error.

    Only pods that request such a feature wait for the first response of the runtime. Running pods keep running.
    """

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        if not (requests_strict_groups(pod) or has_image_volumes(pod)):
            return None
        rejection = check_features(pod, await self._context.runtime_status())
        return None if rejection is None or await is_running(self._context, pod) else rejection


def check_features(pod: Pod, runtime: RuntimeStatus) -> Rejection | None:
    """Return the rejection of a pod that requests an unsupported feature."""
    features = runtime.features
    if requests_strict_groups(pod) and not (features is not None and features.supplemental_groups_policy):
        return Rejection(
            "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
        )
    if has_image_volumes(pod) and not runtime.image_volumes:
        return Rejection(FIELD_NOT_SUPPORTED, "Image volumes are not supported by the container runtime of this node")
    return None


def requests_strict_groups(pod: Pod) -> bool:
    """Return whether the processes of *pod* must not get groups of their images."""
    context = pod.spec.security_context
    return context is not None and context.supplemental_groups_policy == "Strict"


def has_image_volumes(pod: Pod) -> bool:
    """Return whether *pod* has a volume with the content of an image."""
    return any(volume.image is not None for volume in pod.spec.volumes or ())
