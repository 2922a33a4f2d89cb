"""Rules that ask the authorizers for more than the request itself needs: certificates and owners."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

Ask = Callable[[User, RequestInfo], Awaitable[tuple[bool, str]]]
"""Tells whether a user may do something, and why not."""
_GROUP = identity.current().group("certificates")
_REQUESTS = qualified("certificatesigningrequests", _GROUP)
_CLIENT_SIGNER = identity.current().label("kube-apiserver-client")
_MASTERS = "system:masters"
_GC_FIELDS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class SigningRequestIdentity(AdmissionPlugin):
    """Writes into a signing request who made it, whatever the body says; it is always on."""

    name = "SigningRequestIdentity"
    resources = (_REQUESTS,)
    operations = ("CREATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        spec, user = call.obj.setdefault("spec", {}), call.request.user
        spec["username"], spec["groups"] = user.name, list(user.groups)
        for name, value in (("uid", user.uid), ("extra", {key: list(item) for key, item in user.extra.items()})):
            if value:
                spec[name] = value
            else:
                spec.pop(name, None)


class _SignerRight(AdmissionPlugin):
    """Needs a right on the signer of a request."""

    verb = ""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def _may(self, user: User, signer: str) -> bool:
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            info = RequestInfo(self.verb, "", _GROUP, "*", "signers", name=name)
            if (await self._ask(user, info))[0]:
                return True
        return False


class CertificateApproval(_SignerRight):
    """Who approves must have the right ``approve`` on the signer (spec: admission.CertificateApproval)."""

    name = "CertificateApproval"
    resources = (f"{_REQUESTS}/approval",)
    operations = ("UPDATE",)
    verb = "approve"

    async def validate(self, call: AdmissionRequest) -> None:
        signer = _signer(call.old)
        if not await self._may(call.request.user, signer):
            raise call.refuse(f'user not permitted to approve requests with signerName "{signer}"')


class CertificateSigning(_SignerRight):
    """Who signs must have the right ``sign`` on the signer (spec: admission.CertificateSigning)."""

    name = "CertificateSigning"
    resources = (f"{_REQUESTS}/status",)
    operations = ("UPDATE",)
    verb = "sign"

    async def validate(self, call: AdmissionRequest) -> None:
        old = call.old or {}
        same = (dig(old, ("status", name)) == dig(call.obj, ("status", name)) for name in ("certificate", "conditions"))
        signer = _signer(old)
        if not all(same) and not await self._may(call.request.user, signer):
            raise call.refuse(f'user not permitted to sign requests with signerName "{signer}"')


class ClusterTrustBundleAttest(_SignerRight):
    """Who publishes the anchors of a signer must have the right ``attest`` on it.

    spec: admission.ClusterTrustBundleAttest
    """

    name = "ClusterTrustBundleAttest"
    resources = (qualified("clustertrustbundles", _GROUP),)
    verb = "attest"

    async def validate(self, call: AdmissionRequest) -> None:
        signer = _signer(call.obj)
        if not signer or (call.operation == "UPDATE" and _settled(call.obj) == _settled(call.old or {})):
            return
        if not await self._may(call.request.user, signer):
            raise call.refuse(f'user not permitted to attest for signerName "{signer}"')


class CertificateSubjectRestriction(AdmissionPlugin):
    """No client certificate makes its owner a superuser (spec: admission.CertificateSubjectRestriction)."""

    name = "CertificateSubjectRestriction"
    resources = (_REQUESTS,)
    operations = ("CREATE",)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj.get("spec") or {}
        if spec.get("signerName") != _CLIENT_SIGNER:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            text = base64.b64decode(str(spec.get("request") or ""), validate=True)
            subject = x509.load_pem_x509_csr(text).subject
        except (ValueError, binascii.Error) as error:
            raise call.refuse(f"failed to parse CSR: {error}") from error
        for organization in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME):
            if organization.value == _MASTERS:
                raise call.refuse(f"use of {_CLIENT_SIGNER} signer with {_MASTERS} group is not allowed")


class OwnerReferencesPermissionEnforcement(AdmissionPlugin):
    """Owners are set by who may delete the object, and block a deletion only for who may finalize the owner.

    spec: admission.OwnerReferencesPermissionEnforcement
    """

    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, ask: Ask, registry: Registry) -> None:
        self._ask, self._registry = ask, registry

    def concerns(self, resource: Resource, operation: str, subresource: str) -> bool:
        return operation in self.operations and (resource.group, resource.plural, subresource) != ("", "pods", "status")

    async def validate(self, call: AdmissionRequest) -> None:
        new, old = _owners(call.obj), _owners(call.old or {})
        if new == old:
            return
        user, info, resource = call.request.user, call.request.info, call.resource
        if call.operation != "CREATE":
            asked = RequestInfo(
                "delete", "", resource.group, resource.version, resource.plural, call.subresource, info.namespace,
                call.name,
            )  # fmt: skip
            allowed, reason = await self._ask(user, asked)
            if not allowed:
                raise call.refuse(f"cannot set an ownerRef on a resource you can't delete: {reason}, <nil>")
        blocked_before = {item.get("uid") for item in old if item.get("blockOwnerDeletion")}
        blocking = [item for item in new if item.get("blockOwnerDeletion") and item.get("uid") not in blocked_before]
        if not blocking:
            return
        if (await self._ask(user, RequestInfo("update", "", "*", "*", "*", "finalizers", "", "*")))[0]:
            return
        for item in blocking:
            await self._check_owner(call, item)

    async def _check_owner(self, call: AdmissionRequest, item: Object) -> None:
        api_version, kind = str(item.get("apiVersion") or ""), str(item.get("kind") or "")
        group, _, version = api_version.rpartition("/")
        owner = next(
            (found for found in self._registry if (found.group, found.version, found.kind) == (group, version, kind)),
            None,
        )
        if owner is None:
            text = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
            text += f'{api_version} Kind {kind}: no matches for kind "{kind}" in version "{api_version}"'
            raise call.refuse(text)
        namespace = call.namespace if owner.namespaced else ""
        asked = RequestInfo(
            "update", "", owner.group, owner.version, owner.plural, "finalizers", namespace, str(item.get("name") or "")
        )
        allowed, reason = await self._ask(call.request.user, asked)
        if not allowed:
            text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
            raise call.refuse(f"{text}: {reason}, <nil>")


def _signer(obj: Object | None) -> str:
    return str(dig(obj, ("spec", "signerName")) or "")


def _owners(obj: Object) -> list[Object]:
    found: list[Object] = (obj.get("metadata") or {}).get("ownerReferences") or []
    return found


def _settled(obj: Object) -> Object:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _GC_FIELDS}
    return {**obj, "metadata": metadata}
