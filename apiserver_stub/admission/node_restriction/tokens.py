"""Checks of the service account tokens that a node agent requests: bound to a pod of its node, for a known audience."""

from __future__ import annotations

from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.apimachinery.status import not_found, qualified, quote
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_REQUEST_AUDIENCE = "request-serviceaccounts-token-audience"
"""Verb of the permission to request tokens for other audiences than those in the pod."""
_MIGRATED = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}
"""CSI drivers that provide volumes of earlier types."""


class _NotFoundError(LookupError):
    """An object that a volume refers to is missing."""

    def __init__(self, singular: str, name: str) -> None:
        super().__init__(f"{singular} {quote(name)} not found")


class TokenChecks:
    """Checks of TokenRequests of node agents."""

    def __init__(self, lister: Lister, authorize: Decide, identity: Identity, *, restricts_audiences: bool) -> None:
        self._lister, self._authorize, self._restricts_audiences = lister, authorize, restricts_audiences
        self._storage = identity.group("storage")

    async def check(self, call: AdmissionRequest, node: str) -> None:
        """Reject a token that the agent of *node* must not request.

        :raises ApiError: 403, or 404 for a missing pod.
        """
        reference = dig(call.obj, ("spec", "boundObjectRef")) or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            raise call.forbidden("node requested token not bound to a pod")
        uid = reference.get("uid")
        if not uid:
            raise call.forbidden("node requested token with a pod binding without a uid")
        pod = self._lister.find("core/pods", reference["name"], call.namespace)
        if pod is None:
            raise not_found("", "pod", reference["name"])
        if pod["metadata"]["uid"] != uid:
            text = f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            raise call.forbidden(f"{text}The object might have been deleted and then recreated")
        if pod["spec"].get("nodeName") != node:
            raise call.forbidden("node requested token bound to a pod scheduled on a different node")
        if self._restricts_audiences:
            await self._check_audience(call, pod)

    async def _check_audience(self, call: AdmissionRequest, pod: Object) -> None:
        audiences = dig(call.obj, ("spec", "audiences")) or []
        if len(audiences) > 1:
            raise call.forbidden("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        named, problems = self._names_audience(pod, audience)
        if named:
            return
        if problems:
            shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise call.forbidden(f"error validating audience {quote(audience)}: {shown}")
        user = call.request.user
        info = RequestInfo(_REQUEST_AUDIENCE, "", "", "v1", audience, namespace=call.namespace, name=call.name)
        if not (await self._authorize(user, info))[0]:
            text = f"{user.name} is not authorized to request tokens for this audience"
            raise call.forbidden(f"audience {quote(audience)} not found in pod spec volume, {text}")

    def _names_audience(self, pod: Object, audience: str) -> tuple[bool, list[str]]:
        """Return whether a volume of *pod* needs tokens for *audience*, and the lookups that failed."""
        problems: list[str] = []
        for volume in pod["spec"].get("volumes") or ():
            for source in dig(volume, ("projected", "sources")) or ():
                token = source.get("serviceAccountToken")
                if token is not None and (token.get("audience") or "") == audience:
                    return True, []
            try:
                driver = self._driver_of(pod, volume)
                if driver and audience in self._audiences(driver):
                    return True, []
            except _NotFoundError as error:
                if str(error) not in problems:
                    problems.append(str(error))
        return False, problems

    def _driver_of(self, pod: Object, volume: Object) -> str:
        """Return the CSI driver of a volume; empty without one.

        :raises _NotFoundError: its claim or volume is missing.
        """
        namespace = pod["metadata"]["namespace"]
        if dig(volume, ("ephemeral", "volumeClaimTemplate")) is not None:
            return self._driver_of_claim(namespace, f"{pod['metadata']['name']}-{volume['name']}")
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return self._driver_of_claim(namespace, claim.get("claimName") or "")
        return _driver_in(volume)

    def _driver_of_claim(self, namespace: str, name: str) -> str:
        claim = self._lister.find("core/persistentvolumeclaims", name, namespace)
        if claim is None:
            raise _NotFoundError("persistentvolumeclaim", name)
        volume_name = dig(claim, ("spec", "volumeName")) or ""
        volume = self._lister.find("core/persistentvolumes", volume_name)
        if volume is None:
            raise _NotFoundError("persistentvolume", volume_name)
        return _driver_in(volume["spec"])

    def _audiences(self, driver: str) -> list[str]:
        found = self._lister.find(f"{self._storage}/csidrivers", driver)
        if found is None:
            raise _NotFoundError(qualified("csidriver", self._storage), driver)
        return [item.get("audience") or "" for item in dig(found, ("spec", "tokenRequests")) or ()]


def _driver_in(source: Object) -> str:
    """Return the CSI driver that a volume source names, or that provides volumes of its type."""
    if source.get("csi") is not None:
        return str(source["csi"].get("driver") or "")
    return next((driver for name, driver in _MIGRATED.items() if source.get(name) is not None), "")
