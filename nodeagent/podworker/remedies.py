"""What an operator can do, by the reason that a pod is held up for."""

from __future__ import annotations

from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    # admit
    "OutOfpods": "run fewer pods here, or raise maxPods",
    "OutOfcpu": "lower the pod's CPU requests, or move other pods away",
    "OutOfmemory": "lower the pod's memory requests, or move other pods away",
    "Evicted": "free what the node is short of (`nodeagent evict plan`), then let the pod be made anew",
    "NodeShutdown": "the node shuts down; the pod is made anew elsewhere",
    "NodeAffinity": "give the node the labels that the pod selects, or change its node selector",
    "SysctlForbidden": "take the sysctl out of the pod, or name it in allowedUnsafeSysctls",
    "UnexpectedAdmissionError": "a plugin failed; `nodeagent plugins list` and the agent's log tell which and why",
    "SourceSilent": "the agent does not know all of its pods yet: see whether the API server answers, and the log",
    # volumes
    "FailedMount": "create or repair what the volume names (config map, secret, path); it is tried again by itself",
    # pull
    "ErrImagePull": "check the image's name, the registry and the pod's credentials: `nodeagent creds test IMAGE`, "
    "`nodeagent image pull IMAGE`",
    "ImagePullBackOff": "check the image's name, the registry and the pod's credentials: `nodeagent creds test IMAGE`, "
    "`nodeagent image pull IMAGE`",
    "RegistryUnavailable": "see whether this node reaches the registry (name, route, proxy, certificate)",
    "SignatureValidationFailed": "the image is not signed as the runtime's policy asks; sign it or change the policy",
    "ErrImageNeverPull": "pull policy Never: bring the image onto the node with `nodeagent image pull IMAGE`",
    "InvalidImageName": "correct the image's name in the pod",
    "ImageInspectError": "the runtime's image store does not answer; `nodeagent doctor` looks at the runtime",
    # sandbox
    "NetworkNotReady": "install or repair the node's CNI plugin; `nodeagent doctor` tells what is missing",
    "FailedCreatePodSandBox": "the runtime cannot make the sandbox: read the cause; often the CNI plugin, the sandbox "
    "image or the cgroup driver (`nodeagent doctor`)",
    "FailedCreatePodContainer": "the pod's cgroup cannot be made; `nodeagent doctor` looks at cgroups",
    "RuntimeUnavailable": "see whether the container runtime runs (`systemctl status containerd`)",
    "ApiUnavailable": "the API server does not answer this node; the pod goes on when it does",
    # start
    "CrashLoopBackOff": "the container ends again and again: `nodeagent logs --previous NS/POD`, and its exit code",
    "CreateContainerConfigError": "create the config map, secret or key that the container names, or correct "
    "its security context",
    "CreateContainerError": "the runtime refuses the container: read the cause",
    "RunContainerError": "the container's command cannot be started: check command, mounts and security context",
    "PostStartHookError": "the postStart hook failed: its command or URL, and what it needs",
    "PreCreateHookError": "a plugin refused the container or failed; mend it or leave it out: `--disable-plugin NAME`",
    # ready
    "Unhealthy": "the probe fails: ask what it asks from inside the pod, then check port, path and delays",
    "ReadinessGatesNotReady": "whoever owns the readiness gate has not set its condition yet",
    "Completed": "",
}


def remedy(reason: str, plugin: str = "") -> str:
    """Return what to do; empty when there is nothing better than the cause itself."""
    if reason in REMEDIES:
        return REMEDIES[reason]
    if reason.startswith("OutOf"):
        return "the node has not enough of it left: lower the pod's request, or move other pods away"
    if plugin:
        return f"the plugin {plugin} holds the pod back: do what it asks for, or change its settings"
    return ""
