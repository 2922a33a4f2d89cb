"""NodeRestriction admission plugin: restrict node agents to their own node and its pods."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.node_restriction.certificates import PodCertificateChecks, check_signing_request
from apiserver_stub.admission.node_restriction.node_objects import ReservedLabels, check_node
from apiserver_stub.admission.node_restriction.pods import PodChecks
from apiserver_stub.admission.node_restriction.tokens import TokenChecks
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import qualified, quote
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.release import Release

_USER_PREFIX, _GROUP = "system:node:", "system:nodes"
_RESOURCE_SLICES = Release(1, 30)
"""First release with resource slices."""


class NodeRestriction(AdmissionPlugin):
    """Restrict node agents to their own node and its pods (spec: admission.NodeRestriction)."""

    name = "NodeRestriction"
    order = 900
    enabled_by_default = False
    operations = ("CREATE", "UPDATE", "DELETE")

    def __init__(self, context: AdmissionContext) -> None:
        identity, gates, lister = context.identity, context.gates, context.lister
        self._identity, self._release = identity, context.release
        self._labels, self._lease_namespace = ReservedLabels.of(identity), identity.node_lease_namespace
        self._pods = PodChecks(lister, identity, context.release)
        restricts_audiences = gates.enabled("ServiceAccountNodeAudienceRestriction")
        self._tokens = TokenChecks(lister, context.authorize, identity, restricts_audiences=restricts_audiences)
        self._pod_certificates = PodCertificateChecks(
            lister, identity, is_enabled=gates.enabled("PodCertificateRequest")
        )
        self._checks_signing_requests = not gates.enabled("AllowInsecureNodeAgentCertificateSigningRequests")
        groups = {"leases": "coordination", "csinodes": "storage", "resourceslices": "resource"}
        groups |= {"certificatesigningrequests": "certificates", "podcertificaterequests": "certificates"}
        self._named = {qualified(plural, identity.group(group)): plural for plural, group in groups.items()}

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context)

    async def admit(self, call: AdmissionRequest) -> None:
        user = call.request.user
        if _GROUP not in user.groups or not user.name.startswith(_USER_PREFIX):
            return
        node = user.name.removeprefix(_USER_PREFIX)
        if not node:
            raise call.forbidden(f"could not determine node from user {quote(user.name)}")
        label = qualified(call.resource.plural, call.resource.group)
        match self._named.get(label, label):
            case "pods":
                self._pods.check(call, node)
            case "nodes":
                check_node(call, node, self._labels)
            case "persistentvolumeclaims":
                _check_claim(call, node)
            case "serviceaccounts" if call.operation == "CREATE" and call.subresource == "token":
                await self._tokens.check(call, node)
            case "leases":
                if call.namespace != self._lease_namespace:
                    text = f"can only access leases in the {quote(self._lease_namespace)}"
                    raise call.forbidden(f"{text} system namespace")
                if call.target != node:
                    raise call.forbidden("can only access node lease with the same name as the requesting node")
            case "csinodes":
                if call.target != node:
                    raise call.forbidden("can only access CSINode with the same name as the requesting node")
            case "resourceslices" if self._release >= _RESOURCE_SLICES:
                _check_resource_slice(call, node)
            case "certificatesigningrequests" if self._checks_signing_requests:
                check_signing_request(call, node, self._identity)
            case "podcertificaterequests":
                self._pod_certificates.check(call, node)


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


def _check_resource_slice(call: AdmissionRequest, node: str) -> None:
    if call.operation == "UPDATE":
        return  # The node authorizer has checked the stored object.
    obj = call.obj if call.operation == "CREATE" else call.old or {}
    if dig(obj, ("spec", "nodeName")) != node:
        verb = call.operation.lower()
        raise call.forbidden(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")
