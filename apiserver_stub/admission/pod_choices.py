"""Rules of an administrator about single fields of pods."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.reading import containers
from apiserver_stub.apimachinery.status import not_supported
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_HOSTNAME = identity.current().label("hostname")


class AlwaysPullImages(AdmissionPlugin):
    """Pulls images at every start, so that who may not pull one cannot use it (spec: admission.AlwaysPullImages)."""

    name = "AlwaysPullImages"
    resources = ("pods", "pods/ephemeralcontainers")

    async def admit(self, call: AdmissionRequest) -> None:
        for _, container in containers(call.obj["spec"]):
            if not _unchanged(call, container):
                container["imagePullPolicy"] = "Always"

    async def validate(self, call: AdmissionRequest) -> None:
        for path, container in containers(call.obj["spec"]):
            policy = container.get("imagePullPolicy") or ""
            if policy != "Always" and not _unchanged(call, container):
                cause = not_supported(f"{path}.imagePullPolicy", policy, ["Always"])
                raise call.refuse(f"{cause.field}: {cause.message}")


def _unchanged(call: AdmissionRequest, container: dict[str, object]) -> bool:
    """Return whether an update leaves the image as it was: such a container is left alone."""
    if call.operation != "UPDATE" or not call.old:
        return False
    before = [item.get("image") for _, item in containers(call.old["spec"]) if item.get("name") == container["name"]]
    return before == [container.get("image")]


class LimitPodHardAntiAffinityTopology(AdmissionPlugin):
    """Hard anti-affinity keeps pods apart by host and by nothing larger.

    spec: admission.LimitPodHardAntiAffinityTopology
    """

    name = "LimitPodHardAntiAffinityTopology"
    resources = ("pods",)

    async def validate(self, call: AdmissionRequest) -> None:
        apart = (call.obj["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        for term in apart.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey") or ""
            if key != _HOSTNAME:
                text = f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                raise call.refuse(f"{text}but only key {_HOSTNAME} is allowed")


class SecurityContextDeny(AdmissionPlugin):
    """Refuses pods that choose user, groups or labels to run with (spec: admission.SecurityContextDeny)."""

    name = "SecurityContextDeny"
    resources = ("pods",)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        context = spec.get("securityContext") or {}
        for member in ("supplementalGroups", "seLinuxOptions", "runAsUser", "fsGroup"):
            if context.get(member) is not None:
                raise call.refuse(f"pod.Spec.SecurityContext.{_exported(member)} is forbidden")
        for _, container in containers(spec):
            context = container.get("securityContext") or {}
            for member in ("seLinuxOptions", "runAsUser"):
                if context.get(member) is not None:
                    raise call.refuse(f"SecurityContext.{_exported(member)} is forbidden")


def _exported(member: str) -> str:
    return {"seLinuxOptions": "SELinuxOptions", "fsGroup": "FSGroup"}.get(member, member[0].upper() + member[1:])
