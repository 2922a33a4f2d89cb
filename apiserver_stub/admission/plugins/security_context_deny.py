"""SecurityContextDeny admission plugin: reject pods that set user, groups or SELinux options."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.pod_fields import containers
from apiserver_stub.verbs.admission import AdmissionRequest


class SecurityContextDeny(AdmissionPlugin):
    """Reject pods that set user, groups or SELinux options (spec: admission.SecurityContextDeny)."""

    name = "SecurityContextDeny"
    order = 500
    enabled_by_default = False
    feature_gate = "SecurityContextDeny"
    deprecated = True
    resources = ("pods",)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        context = spec.get("securityContext") or {}
        for member in ("supplementalGroups", "seLinuxOptions", "runAsUser", "fsGroup"):
            if context.get(member) is not None:
                raise call.forbidden(f"pod.Spec.SecurityContext.{_exported(member)} is forbidden")
        for _, container in containers(spec):
            context = container.get("securityContext") or {}
            for member in ("seLinuxOptions", "runAsUser"):
                if context.get(member) is not None:
                    raise call.forbidden(f"SecurityContext.{_exported(member)} is forbidden")


def _exported(member: str) -> str:
    return {"seLinuxOptions": "SELinuxOptions", "fsGroup": "FSGroup"}.get(member, member[0].upper() + member[1:])
