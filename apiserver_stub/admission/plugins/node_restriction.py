"""NodeRestriction admission plugin: restrict node agents to their own node and its pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of, labels_of
from apiserver_stub.admission.pod_fields import config_map_names, mirror_annotation, secret_names, volume_references
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import not_found, qualified, quote
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_USER_PREFIX, _GROUP = "system:node:", "system:nodes"
_ALLOWED = (
    *(("", name) for name in ("hostname", "os", "arch")),
    *((prefix, name) for prefix in ("topology", "failure-domain.beta") for name in ("zone", "region")),
    *(("beta", name) for name in ("instance-type", "os", "arch")),
    ("node", "instance-type"),
)
"""Prefixes and names of the labels in the reserved domains that a node agent may set on its node."""


@dataclass(frozen=True, slots=True)
class ReservedLabels:
    """Labels of nodes in the domains of the cluster."""

    restricted: str
    """Domain of labels that only administrators may set."""
    domains: tuple[str, ...]
    """Reserved domains."""
    own_domains: tuple[str, ...]
    """Domains within the reserved ones whose labels node agents may set."""
    allowed: frozenset[str]

    @classmethod
    def of(cls, identity: Identity) -> ReservedLabels:
        domain = identity.label_domain
        return cls(
            f"node-restriction.{domain}",
            (domain, identity.api_domain),
            (f"kubelet.{domain}", f"node.{domain}"),
            frozenset(identity.label(name, prefix) for prefix, name in _ALLOWED),
        )

    def forbidden(self, new: dict[str, str], old: dict[str, str]) -> list[str]:
        """Return the changed labels that a node agent must not set."""
        changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
        return sorted(key for key in changed if not self._may_set(key))

    def _may_set(self, key: str) -> bool:
        domain = key.partition("/")[0] if "/" in key else ""
        if _within(domain, (self.restricted,)):
            return False
        return not _within(domain, self.domains) or key in self.allowed or _within(domain, self.own_domains)


class NodeRestriction(AdmissionPlugin):
    """Restrict node agents to their own node and its pods (spec: admission.NodeRestriction)."""

    name = "NodeRestriction"
    order = 900
    enabled_by_default = False
    operations = ("CREATE", "UPDATE", "DELETE")

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        self._labels, self._mirror = ReservedLabels.of(identity), mirror_annotation(identity)
        self._leases = qualified("leases", identity.group("coordination"))
        self._csi_nodes = qualified("csinodes", identity.group("storage"))
        self._lease_namespace = identity.node_lease_namespace

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        user = call.request.user
        if _GROUP not in user.groups or not user.name.startswith(_USER_PREFIX):
            return
        node = user.name.removeprefix(_USER_PREFIX)
        if not node:
            raise call.forbidden(f"could not determine node from user {quote(user.name)}")
        match qualified(call.resource.plural, call.resource.group):
            case "pods":
                self._check_pod(call, node)
            case "nodes":
                _check_node(call, node, self._labels)
            case "persistentvolumeclaims":
                _check_claim(call, node)
            case "serviceaccounts" if call.operation == "CREATE" and call.subresource == "token":
                self._check_token(call, node)
            case name if name == self._leases:
                if call.namespace != self._lease_namespace:
                    text = f"can only access leases in the {quote(self._lease_namespace)}"
                    raise call.forbidden(f"{text} system namespace")
                if _name(call) != node:
                    raise call.forbidden("can only access node lease with the same name as the requesting node")
            case name if name == self._csi_nodes:
                if _name(call) != node:
                    raise call.forbidden("can only access CSINode with the same name as the requesting node")

    def _check_pod(self, call: AdmissionRequest, node: str) -> None:
        operation = call.operation
        match call.subresource, operation:
            case "", "CREATE":
                self._check_new_pod(call, node)
            case "", "DELETE":
                if self._node_of(call) != node:
                    raise call.forbidden(f'node "{node}" can only delete pods with spec.nodeName set to itself')
            case "", _:
                text = f'unexpected operation "{operation}", node "{node}" can only create and delete mirror pods'
                raise call.forbidden(text)
            case "status", "UPDATE":
                old = call.old or {}
                if dig(old, ("spec", "nodeName")) != node:
                    text = "can only update pod status for pods with spec.nodeName set to itself"
                    raise call.forbidden(f'node "{node}" {text}')
                if labels_of(old) != labels_of(call.obj):
                    raise call.forbidden(f'node "{node}" cannot update labels through pod status')
                claims = ("status", "resourceClaimStatuses")
                if (dig(old, claims) or []) != (dig(call.obj, claims) or []):
                    raise call.forbidden(f'node "{node}" cannot update resource claim statues')
            case "eviction", "CREATE":
                if self._node_of(call) != node:
                    raise call.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")
            case (("status" | "eviction"), _):
                raise call.forbidden(f'unexpected operation "{operation}"')
            case other, _:
                text = f"unexpected pod subresource \"{other}\", only 'status' and 'eviction' are allowed"
                raise call.forbidden(text)

    def _node_of(self, call: AdmissionRequest) -> str:
        name = _name(call)
        pod = self._lister.find("core/pods", name, call.namespace)
        if pod is None:
            raise not_found("", "pods", name)
        return str(dig(pod, ("spec", "nodeName")) or "")

    def _check_new_pod(self, call: AdmissionRequest, node: str) -> None:
        pod = call.obj
        spec = pod["spec"]
        if self._mirror not in annotations_of(pod):
            text = f'pod does not have "{self._mirror}" annotation, node "{node}" can only create mirror pods'
            raise call.forbidden(text)
        if spec.get("nodeName") != node:
            raise call.forbidden(f'node "{node}" can only create pods with spec.nodeName set to itself')
        self._check_owner(call, pod["metadata"].get("ownerReferences") or [], node)
        cannot = f'node "{node}" can not create pods that reference'
        if spec.get("serviceAccountName"):
            raise call.forbidden(f"{cannot} a service account")
        secrets = any(secret_names(spec)) or spec.get("imagePullSecrets")
        if secrets or any(True for _ in volume_references(spec, "secret", "secret")):
            raise call.forbidden(f"{cannot} secrets")
        if any(config_map_names(spec)) or any(True for _ in volume_references(spec, "configMap", "configMap")):
            raise call.forbidden(f"{cannot} configmaps")
        if any(True for _ in volume_references(spec, "clusterTrustBundle", "clusterTrustBundle")):
            raise call.forbidden(f"{cannot} clustertrustbundles")
        if any(item.get("persistentVolumeClaim") for item in spec.get("volumes") or ()):
            raise call.forbidden(f"{cannot} persistentvolumeclaims")

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
            raise not_found("", "nodes", node)
        uid = found["metadata"]["uid"]
        if owner.get("uid") != uid:
            raise call.forbidden(f"node {node} UID mismatch: expected {owner.get('uid') or ''} got {uid}")

    def _check_token(self, call: AdmissionRequest, node: str) -> None:
        reference = dig(call.obj, ("spec", "boundObjectRef")) or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            raise call.forbidden("node requested token not bound to a pod")
        uid = reference.get("uid")
        if not uid:
            raise call.forbidden("node requested token with a pod binding without a uid")
        pod = self._lister.find("core/pods", reference["name"], call.namespace)
        if pod is None:
            raise not_found("", "pods", reference["name"])
        if pod["metadata"]["uid"] != uid:
            text = f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            raise call.forbidden(f"{text}The object might have been deleted and then recreated")
        if pod["spec"].get("nodeName") != node:
            raise call.forbidden("node requested token bound to a pod scheduled on a different node")


def _check_node(call: AdmissionRequest, node: str, labels: ReservedLabels) -> None:
    name = _name(call)
    if name != node:
        raise call.forbidden(f'node "{node}" is not allowed to modify node "{name}"')
    if call.operation == "DELETE":
        return
    new, old = call.obj, call.old or {}
    if call.operation == "CREATE":
        if dig(new, ("spec", "configSource")) is not None:
            raise call.forbidden(f'node "{node}" is not allowed to create pods with a non-nil configSource')
        if names := labels.forbidden(labels_of(new), {}):
            raise call.forbidden(f'node "{node}" is not allowed to set the following labels: {", ".join(names)}')
        return
    source = dig(new, ("spec", "configSource"))
    if source is not None and source != dig(old, ("spec", "configSource")):
        raise call.forbidden(f'node "{node}" is not allowed to update configSource to a new non-nil configSource')
    if (dig(new, ("spec", "taints")) or []) != (dig(old, ("spec", "taints")) or []):
        raise call.forbidden(f'node "{node}" is not allowed to modify taints')
    if names := labels.forbidden(labels_of(new), labels_of(old)):
        raise call.forbidden(f"is not allowed to modify labels: {', '.join(names)}")


def _check_claim(call: AdmissionRequest, node: str) -> None:
    if call.subresource != "status":
        raise call.forbidden("may only update PVC status")
    if call.operation != "UPDATE":
        raise call.forbidden(f'unexpected operation "{call.operation}"')
    if _without_resize_fields(call.obj) != _without_resize_fields(call.old or {}):
        text = "is not allowed to update fields other than status.capacity and status.conditions"
        raise call.forbidden(f'node "{node}" {text}')


def _without_resize_fields(claim: Object) -> Object:
    """Return *claim* without the fields that a node agent may update while it resizes the volume."""
    metadata = {**claim["metadata"]}
    for name in ("resourceVersion", "managedFields"):
        metadata.pop(name, None)
    status = {**(claim.get("status") or {})}
    for name in ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"):
        status.pop(name, None)
    return {**claim, "metadata": metadata, "status": status}


def _within(domain: str, roots: tuple[str, ...]) -> bool:
    return any(domain == root or domain.endswith("." + root) for root in roots)


def _name(call: AdmissionRequest) -> str:
    return call.name or str((call.obj.get("metadata") or {}).get("name") or "")
