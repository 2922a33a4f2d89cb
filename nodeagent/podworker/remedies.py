"""Remedies for operators, by the reason that blocks a pod."""

from __future__ import annotations

from collections.abc import Mapping

_UNSUPPORTED = "remove the fields from the pod, or run it on a node that supports them"
REMEDIES: Mapping[str, str] = {
    # admit
    "OutOfpods": "run fewer pods on this node, or raise maxPods",
    "OutOfcpu": "lower the pod's CPU requests, or move other pods to another node",
    "OutOfmemory": "lower the pod's memory requests, or move other pods to another node",
    "Evicted": "free up the resource under pressure (see `nodeagent evict plan`), then recreate the pod",
    "NodeShutdown": "the node is shutting down; the pod's controller recreates it on another node",
    "NodeAffinity": "add the labels that the pod selects to the node, or change the node selector",
    "AppArmor": "enable AppArmor on the node, or remove the profile from the pod",
    "SysctlForbidden": "remove the sysctl from the pod, or add it to allowedUnsafeSysctls",
    "PodFieldNotSupported": _UNSUPPORTED,
    "PodFeatureUnsupported": _UNSUPPORTED,
    "PodLevelResourcesNotSupported": _UNSUPPORTED,
    "SupplementalGroupsPolicyNotSupported": _UNSUPPORTED,
    "UnexpectedAdmissionError": "a plugin failed; see `nodeagent plugins list` and the agent's log",
    "SourceSilent": "a pod source has not published yet; check the connection to the API server, and the agent's log",
    # volumes
    "FailedMount": "create or fix the object that the volume refers to (ConfigMap, Secret, claim, path), or check the "
    "driver of the volume (`nodeagent volumes`, `nodeagent doctor`); the agent retries",
    "FailedMapVolume": "check the driver of the block volume (`nodeagent volumes`, `nodeagent doctor`); the agent "
    "retries",
    "FailedAttachVolume": "check the controller of the driver and the VolumeAttachment; the agent retries",
    "VolumeAttachmentLimitExceeded": "the node cannot attach more volumes of the driver; the pod's controller "
    "recreates it on another node",
    # devices
    "WaitingForDevices": "check the device plugin of the resource on this node: `nodeagent devices`",
    "FailedPrepareDynamicResources": "check the DRA driver that the cause names, and the claim: `kubectl describe "
    "resourceclaim -n NS CLAIM`",
    "FailedUnprepareDynamicResources": "check the DRA driver that the cause names; the pod ends once its claims are "
    "unprepared",
    # pull
    "ErrImagePull": "check the image's name, the registry and the pod's credentials: `nodeagent creds test IMAGE`, "
    "`nodeagent image pull IMAGE`",
    "ImagePullBackOff": "check the image's name, the registry and the pod's credentials: `nodeagent creds test IMAGE`, "
    "`nodeagent image pull IMAGE`",
    "RegistryUnavailable": "check the connection from this node to the registry (name, route, proxy, certificate)",
    "SignatureValidationFailed": "the image's signature violates the runtime's policy; sign it or change the policy",
    "ErrImageNeverPull": "pull policy is Never; pull the image with `nodeagent image pull IMAGE`",
    "InvalidImageName": "correct the image's name in the pod",
    "ImageInspectError": "the runtime's image service does not respond; check the runtime with `nodeagent doctor`",
    # sandbox
    "NetworkNotReady": "install or fix the node's CNI plugin; `nodeagent doctor` reports missing parts",
    "FailedCreatePodSandBox": "the runtime failed to create the sandbox, often because of the CNI plugin, the sandbox "
    "image or the cgroup driver; see the cause and `nodeagent doctor`",
    "FailedCreatePodContainer": "the pod's cgroup cannot be created; check cgroups with `nodeagent doctor`",
    "RuntimeUnavailable": "check whether the container runtime is running (`systemctl status containerd`)",
    "ApiUnavailable": "the API server does not respond; the pod continues once it does",
    # start
    "CrashLoopBackOff": "the container exits repeatedly; see `nodeagent logs --previous NS/POD` and its exit code",
    "CreateContainerConfigError": "create the ConfigMap, Secret or key that the container refers to, or correct "
    "its security context",
    "CreateContainerError": "the runtime rejected the container; see the cause",
    "RunContainerError": "the container's command cannot be started; check command, mounts and security context",
    "PostStartHookError": "the postStart hook failed; check its command or URL and their dependencies",
    "PreCreateHookError": "a plugin rejected the container or failed; fix or disable it (`--disable-plugin NAME`)",
    # ready
    "Unhealthy": "the probe fails; repeat its request or command in the pod, then check port, path and delays",
    "ReadinessGatesNotReady": "the controller of the readiness gate has not set its condition yet",
    "Completed": "",
}


def remedy(reason: str, plugin: str = "") -> str:
    """Return the remedy; empty if there is none beyond the cause itself."""
    if reason in REMEDIES:
        return REMEDIES[reason]
    if reason.startswith("OutOf"):
        return "the node has insufficient resources; lower the pod's request, or move other pods to another node"
    if plugin:
        return f"the plugin {plugin} blocks the pod; resolve the cause that it reports, or change its settings"
    return ""
