"""Graph of the objects that each node may read: references of its pods, followed through claims and volumes."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object, dig, key_of
from nodeagent.base.identity import Identity

PODS, VOLUMES = "core/pods", "core/persistentvolumes"

Target = tuple[str, str, str]
"""Plural, namespace and name of an object."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_REFERRING_VOLUMES = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
_OWNED = {"volumeattachments": "storage", "resourceslices": "resource", "podcertificaterequests": "certificates"}
"""Objects whose ``spec.nodeName`` is the only node that may read them, with their API group."""
_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


class NodeGraph:
    """Index of pods, volumes and objects that name their node; implements :class:`.store_index.Index`."""

    def __init__(self, identity: Identity) -> None:
        self._owned = {f"{identity.group(group)}/{plural}": plural for plural, group in _OWNED.items()}
        self.collections = (PODS, VOLUMES, *self._owned)
        self._mirror = identity.label("config.mirror")
        self._pods: dict[str, tuple[str, tuple[Target, ...]]] = {}
        self._nodes: dict[Target, dict[str, int]] = {}
        """Numbers of pods by node; plain dictionaries, which Python's garbage collector does not track."""
        self._volumes: dict[str, tuple[Target, tuple[Target, ...]]] = {}
        self._volumes_of_secret: dict[Target, set[str]] = {}
        self._node_of: dict[tuple[str, str], str] = {}
        """Node of an object that names it, by plural and key."""

    def belongs(self, node: str, target: Target) -> bool:
        """Return whether *target* is needed on *node*."""
        if node in self._nodes.get(target, ()):
            return True
        plural, namespace, name = target
        if plural == "secrets":
            return any(self._volume_belongs(node, volume) for volume in self._volumes_of_secret.get(target, ()))
        if plural == "persistentvolumes":
            return self._volume_belongs(node, name)
        return plural in _OWNED and self._node_of.get((plural, key_of(namespace, name))) == node

    def put(self, collection: str, key: str, obj: Object) -> None:
        if collection == PODS:
            self._put_pod(key, obj)
        elif collection == VOLUMES:
            self._put_volume(key, obj)
        else:
            self._node_of[self._owned[collection], key] = dig(obj, ("spec", "nodeName")) or ""

    def remove(self, collection: str, key: str) -> None:
        if collection == PODS:
            self._remove_pod(key)
        elif collection == VOLUMES:
            self._remove_volume(key)
        else:
            self._node_of.pop((self._owned[collection], key), None)

    def _volume_belongs(self, node: str, volume: str) -> bool:
        found = self._volumes.get(volume)
        return found is not None and node in self._nodes.get(found[0], ())

    def _put_pod(self, key: str, pod: Object) -> None:
        node = dig(pod, ("spec", "nodeName")) or ""
        mirror = self._mirror in (pod["metadata"].get("annotations") or {})
        # A node must not gain access by the mirror pods that it creates.
        targets = tuple(dict.fromkeys(_targets_of_pod(pod))) if node and not mirror else ()
        if node:
            targets = (("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]), *targets)
        if self._pods.get(key) == (node, targets):
            return
        self._remove_pod(key)
        self._pods[key] = (node, targets)
        for target in targets:
            nodes = self._nodes.setdefault(target, {})
            nodes[node] = nodes.get(node, 0) + 1

    def _remove_pod(self, key: str) -> None:
        node, targets = self._pods.pop(key, ("", ()))
        for target in targets:
            nodes = self._nodes[target]
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._nodes[target]

    def _put_volume(self, key: str, volume: Object) -> None:
        self._remove_volume(key)
        claim = dig(volume, ("spec", "claimRef"))
        if not claim:
            return
        namespace = claim.get("namespace") or ""
        secrets = tuple(_secrets_of_volume(volume["spec"], namespace))
        self._volumes[key] = (("persistentvolumeclaims", namespace, claim.get("name") or ""), secrets)
        for secret in secrets:
            self._volumes_of_secret.setdefault(secret, set()).add(key)

    def _remove_volume(self, key: str) -> None:
        _, secrets = self._volumes.pop(key, (("", "", ""), ()))
        for secret in secrets:
            volumes = self._volumes_of_secret[secret]
            volumes.discard(key)
            if not volumes:
                del self._volumes_of_secret[secret]


def _targets_of_pod(pod: Object) -> Iterator[Target]:
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    for plural, name in _references(pod["metadata"]["name"], spec):
        if name:
            yield plural, namespace, name
    statuses = dig(pod, ("status", "resourceClaimStatuses")) or ()
    made = {status.get("name"): status.get("resourceClaimName") for status in statuses}
    for claim in spec.get("resourceClaims") or ():
        source = claim.get("source") or claim  # Releases before 1.31 nest the reference in "source".
        name = source.get("resourceClaimName") or made.get(claim.get("name"))
        if name:
            yield "resourceclaims", namespace, name
    if name := dig(pod, ("status", "extendedResourceClaimStatus", "resourceClaimName")):
        yield "resourceclaims", namespace, name


def _references(pod: str, spec: Object) -> Iterator[tuple[str, str | None]]:
    """Yield plural and name of the objects that a pod refers to; names may be missing."""
    yield "serviceaccounts", spec.get("serviceAccountName")
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name")
    for container in (item for kind in _CONTAINERS for item in spec.get(kind) or ()):
        for source in container.get("envFrom") or ():
            yield "secrets", dig(source, ("secretRef", "name"))
            yield "configmaps", dig(source, ("configMapRef", "name"))
        for variable in container.get("env") or ():
            yield "secrets", dig(variable, ("valueFrom", "secretKeyRef", "name"))
            yield "configmaps", dig(variable, ("valueFrom", "configMapKeyRef", "name"))
    for volume in spec.get("volumes") or ():
        yield from _references_of_volume(pod, volume)


def _references_of_volume(pod: str, volume: Object) -> Iterator[tuple[str, str | None]]:
    yield "secrets", dig(volume, ("secret", "secretName"))
    yield "secrets", dig(volume, ("azureFile", "secretName"))
    yield "secrets", dig(volume, ("csi", "nodePublishSecretRef", "name"))
    for kind in _REFERRING_VOLUMES:
        yield "secrets", dig(volume, (kind, "secretRef", "name"))
    yield "configmaps", dig(volume, ("configMap", "name"))
    for source in dig(volume, ("projected", "sources")) or ():
        yield "secrets", dig(source, ("secret", "name"))
        yield "configmaps", dig(source, ("configMap", "name"))
    yield "persistentvolumeclaims", dig(volume, ("persistentVolumeClaim", "claimName"))
    if volume.get("ephemeral"):
        yield "persistentvolumeclaims", f"{pod}-{volume.get('name')}"


def _secrets_of_volume(spec: Object, claim_namespace: str) -> Iterator[Target]:
    """Yield the secrets that a node needs for a volume, without those that only controllers need."""
    found = [(kind, dig(spec, (kind, "secretRef"))) for kind in _REFERRING_VOLUMES]
    found += [("csi", dig(spec, ("csi", member))) for member in _CSI_SECRETS]
    for _, reference in found:
        if reference and reference.get("name"):
            yield "secrets", reference.get("namespace") or claim_namespace, reference["name"]
    file = spec.get("azureFile") or {}
    if file.get("secretName"):
        yield "secrets", file.get("secretNamespace") or claim_namespace, file["secretName"]
