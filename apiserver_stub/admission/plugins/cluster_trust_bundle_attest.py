"""ClusterTrustBundleAttest admission plugin: require the permission ``attest`` on the signer of a trust bundle."""

from __future__ import annotations

from apiserver_stub.admission.permission_checks import SignerPermission, signer_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest

_GC_FIELDS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class ClusterTrustBundleAttest(SignerPermission):
    """Require the permission ``attest`` on the signer of a trust bundle.

    spec: admission.ClusterTrustBundleAttest
    """

    name = "ClusterTrustBundleAttest"
    order = 2800
    enabled_by_default = True
    plural = "clustertrustbundles"
    verb = "attest"

    async def validate(self, call: AdmissionRequest) -> None:
        signer = signer_of(call.obj)
        if not signer or (
            call.operation == "UPDATE" and _without_gc_fields(call.obj) == _without_gc_fields(call.old or {})
        ):
            return
        if not await self.may_use(call.request.user, signer):
            raise call.forbidden(f'user not permitted to attest for signerName "{signer}"')


def _without_gc_fields(obj: Object) -> Object:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _GC_FIELDS}
    return {**obj, "metadata": metadata}
