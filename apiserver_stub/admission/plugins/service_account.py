"""ServiceAccount admission plugin: set the service account of new pods and mount its token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.admission.pod_fields import has_secrets, mirror_annotation, secret_names, volume_references
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_TOKEN_SECONDS = 3607
_KINDS = {"initContainers": "init container", "containers": "container", "ephemeralContainers": "ephemeral container"}


class ServiceAccount(AdmissionPlugin):
    """Set the service account of new pods and mount its token (spec: admission.ServiceAccount)."""

    name = "ServiceAccount"
    order = 800
    enabled_by_default = True
    resources = ("pods", "pods/ephemeralcontainers")

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        self._mirror, self._enforced = mirror_annotation(identity), identity.label("enforce-mountable-secrets")
        self._token_path = f"/var/run/secrets/{identity.label_domain}/serviceaccount"

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        new = call.obj
        if call.operation != "CREATE" or call.subresource:
            return
        if self._mirror in annotations_of(new):
            # Mirror pods are not mutated; their errors precede those of the validation of the kind.
            await self.validate(call)
            return
        spec = new["spec"]
        name = spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or "default"
        account = self._account(call, name)
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken", True)
        if automount:
            mount_token(spec, self._token_path)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": item.get("name") or ""} for item in account["imagePullSecrets"]]
        await self.validate(call)

    async def validate(self, call: AdmissionRequest) -> None:
        if call.operation == "UPDATE" and call.subresource != "ephemeralcontainers":
            return
        new = call.obj
        spec = new["spec"]
        if call.operation == "CREATE" and self._mirror in annotations_of(new):
            self._check_mirror(call, spec)
            return
        name = spec.get("serviceAccountName")
        if not name:
            raise call.forbidden(f"no service account specified for pod {call.namespace}/{call.name}")
        account = self._account(call, name)
        if annotations_of(account).get(self._enforced, "").lower() not in ("1", "t", "true"):
            return
        for problem in _not_mountable(spec, account, only_ephemeral=bool(call.subresource)):
            raise call.forbidden(problem)

    def _account(self, call: AdmissionRequest, name: str) -> Object:
        account = self._lister.find("core/serviceaccounts", name, call.namespace)
        if account is None:
            text = f'error looking up service account {call.namespace}/{name}: serviceaccount "{name}" not found'
            raise call.forbidden(text)
        return account

    def _check_mirror(self, call: AdmissionRequest, spec: Object) -> None:
        if spec.get("serviceAccountName"):
            raise call.forbidden("a mirror pod may not reference service accounts")
        if has_secrets(spec):
            raise call.forbidden("a mirror pod may not reference secrets")
        if any(True for _ in volume_references(spec, "serviceAccountToken", "serviceAccountToken")):
            raise call.forbidden("a mirror pod may not use ServiceAccountToken volume projections")


def mount_token(spec: Object, path: str) -> None:
    """Mount the service account token into every container without a mount at *path*."""
    unmounted = [
        container
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        if isinstance(container, dict)
        and not any(mount.get("mountPath") == path for mount in container.get("volumeMounts") or ())
    ]
    if not unmounted:
        return
    volume = f"kube-api-access-{objects.name_suffix()}"
    for container in unmounted:
        mounts = container["volumeMounts"] = container.get("volumeMounts") or []
        mounts.append({"name": volume, "readOnly": True, "mountPath": path})
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    volumes = spec["volumes"] = spec.get("volumes") or []
    volumes.append(
        {
            "name": volume,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [field]}},
                ],
            },
        }
    )


def _not_mountable(spec: Object, account: Object, *, only_ephemeral: bool) -> Iterator[str]:
    """Yield an error for each secret of the pod that its service account does not allow."""
    mountable = {item.get("name") for item in account.get("secrets") or ()}
    owner = account["metadata"]["name"]
    ending = f"is not allowed because service account {owner} does not reference that"
    if not only_ephemeral:
        for volume in spec.get("volumes") or ():
            name = (volume.get("secret") or {}).get("secretName")
            if name and name not in mountable:
                yield f'volume with secret.secretName="{name}" {ending} secret'
    for kind, container, name in secret_names(spec):
        if name not in mountable and (kind == "ephemeralContainers") == only_ephemeral:
            who = f"{_KINDS[kind]} {container.get('name', '')}"
            variable = next(
                (
                    item.get("name")
                    for item in container.get("env") or ()
                    if ((item.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name") == name
                ),
                None,
            )
            reference = f"envVar {variable}" if variable else "envFrom"
            yield f'{who} with {reference} referencing secret.secretName="{name}" {ending} secret'
    if not only_ephemeral:
        pullable = {item.get("name") for item in account.get("imagePullSecrets") or ()}
        for index, item in enumerate(spec.get("imagePullSecrets") or ()):
            if item.get("name") not in pullable:
                yield f'imagePullSecrets[{index}].name="{item.get("name")}" {ending} imagePullSecret'
