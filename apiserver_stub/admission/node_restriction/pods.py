"""Checks of the pods that a node agent writes: mirror pods without references, and pods that are bound to its node."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.admission.listers import Lister, annotations_of, labels_of
from apiserver_stub.admission.pod_fields import config_map_names, has_secrets, mirror_annotation, volume_references
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import not_found
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

_ALL_REFERENCES_CHECKED = Release(1, 34)
"""First release that rejects mirror pods with references of any kind."""
_EXTENDED_CLAIMS = Release(1, 34)
"""First release with the status of claims for extended resources."""
_VOLUME_SOURCES = ("configMap", "clusterTrustBundle")
_VOLUME_REFERENCES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED_REFERENCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class PodChecks:
    """Checks of the pods that node agents write."""

    def __init__(self, lister: Lister, identity: Identity, release: Release) -> None:
        self._lister, self._release = lister, release
        self._mirror = mirror_annotation(identity)

    def check(self, call: AdmissionRequest, node: str) -> None:
        """Reject the write of a pod that the agent of *node* must not make.

        :raises ApiError: 403, or 404 for a missing pod.
        """
        operation = call.operation
        match call.subresource, operation:
            case "", "CREATE":
                self._check_new(call, node)
            case "", "DELETE":
                if self._node_of(call) != node:
                    raise call.forbidden(f'node "{node}" can only delete pods with spec.nodeName set to itself')
            case "", _:
                text = f'unexpected operation "{operation}", node "{node}" can only create and delete mirror pods'
                raise call.forbidden(text)
            case "status", "UPDATE":
                self._check_status(call, node)
            case "eviction", "CREATE":
                if self._node_of(call) != node:
                    raise call.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")
            case (("status" | "eviction"), _):
                raise call.forbidden(f'unexpected operation "{operation}"')
            case other, _:
                text = f"unexpected pod subresource \"{other}\", only 'status' and 'eviction' are allowed"
                raise call.forbidden(text)

    def _check_status(self, call: AdmissionRequest, node: str) -> None:
        old, new = call.old or {}, call.obj
        if dig(old, ("spec", "nodeName")) != node:
            text = "can only update pod status for pods with spec.nodeName set to itself"
            raise call.forbidden(f'node "{node}" {text}')
        if labels_of(old) != labels_of(new):
            raise call.forbidden(f'node "{node}" cannot update labels through pod status')
        claims = ("status", "resourceClaimStatuses")
        if (dig(old, claims) or []) != (dig(new, claims) or []):
            raise call.forbidden(f'node "{node}" cannot update resource claim statues')
        claim = ("status", "extendedResourceClaimStatus")
        if self._release >= _EXTENDED_CLAIMS and dig(old, claim) != dig(new, claim):
            raise call.forbidden(f'node "{node}" cannot update extended resource claim status')

    def _node_of(self, call: AdmissionRequest) -> str:
        pod = self._lister.find("core/pods", call.target, call.namespace)
        if pod is None:
            raise not_found("", "pod", call.target)
        return str(dig(pod, ("spec", "nodeName")) or "")

    def _check_new(self, call: AdmissionRequest, node: str) -> None:
        pod = call.obj
        if self._mirror not in annotations_of(pod):
            text = f'pod does not have "{self._mirror}" annotation, node "{node}" can only create mirror pods'
            raise call.forbidden(text)
        if pod["spec"].get("nodeName") != node:
            raise call.forbidden(f'node "{node}" can only create pods with spec.nodeName set to itself')
        self._check_owner(call, pod["metadata"].get("ownerReferences") or [], node)
        if reference := next(references(pod["spec"], self._release), ""):
            raise call.forbidden(f'node "{node}" can not create pods that reference {reference}')

    def _check_owner(self, call: AdmissionRequest, owners: list[Object], node: str) -> None:
        can = f'node "{node}" can only create pods with'
        if len(owners) > 1:
            raise call.forbidden(f"{can} a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise call.forbidden(f"{can} an owner reference set to itself")
        if not owner.get("controller"):
            raise call.forbidden(f"{can} a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise call.forbidden(f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        found = self._lister.find("core/nodes", node)
        if found is None:
            raise not_found("", "node", node)
        uid = found["metadata"]["uid"]
        if owner.get("uid") != uid:
            raise call.forbidden(f"node {node} UID mismatch: expected {owner.get('uid') or ''} got {uid}")


def references(spec: Object, release: Release) -> Iterator[str]:
    """Yield the kinds of API objects that a mirror pod must not refer to but does, in upstream's order."""
    checks_all = release >= _ALL_REFERENCES_CHECKED
    if spec.get("serviceAccountName"):
        yield "serviceaccounts" if checks_all else "a service account"
    maps, bundles = (any(True for _ in volume_references(spec, name, name)) for name in _VOLUME_SOURCES)
    if has_secrets(spec):
        yield "secrets"
    if any(config_map_names(spec)) or maps:
        yield "configmaps"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    if checks_all:
        for volume in spec.get("volumes") or ():
            yield from (text for name, text in _VOLUME_REFERENCES.items() if volume.get(name) is not None)
            for source in dig(volume, ("projected", "sources")) or ():
                yield from (text for name, text in _PROJECTED_REFERENCES.items() if source.get(name) is not None)
    else:
        if bundles:
            yield "clustertrustbundles"
        if any(item.get("persistentVolumeClaim") for item in spec.get("volumes") or ()):
            yield "persistentvolumeclaims"
