"""AlwaysPullImages admission plugin: set and require the image pull policy ``Always``."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.pod_fields import containers
from apiserver_stub.apimachinery.status import not_supported
from apiserver_stub.verbs.admission import AdmissionRequest


class AlwaysPullImages(AdmissionPlugin):
    """Set and require the image pull policy ``Always`` (spec: admission.AlwaysPullImages).

    Users without access to a private image cannot run it from the node's image store.
    """

    name = "AlwaysPullImages"
    order = 1100
    enabled_by_default = False
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
                raise call.forbidden(f"{cause.field}: {cause.message}")


def _unchanged(call: AdmissionRequest, container: dict[str, object]) -> bool:
    """Return whether an update does not change the image; such containers are skipped."""
    if call.operation != "UPDATE" or not call.old:
        return False
    before = [item.get("image") for _, item in containers(call.old["spec"]) if item.get("name") == container["name"]]
    return before == [container.get("image")]
