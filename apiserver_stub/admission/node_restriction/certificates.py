"""Checks of the certificates that a node agent requests, for itself and for pods of its node."""

from __future__ import annotations

import base64
import binascii

from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.admission.pod_fields import mirror_annotation
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError, quote
from apiserver_stub.validation.certificate_requests import common_name
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_NODE_SIGNERS = ("kubelet-serving", "kube-apiserver-client-kubelet")


def check_signing_request(call: AdmissionRequest, node: str, identity: Identity) -> None:
    """Reject a new CertificateSigningRequest for the identity of another node.

    :raises ApiError: 403.
    """
    signers = [identity.label(name) for name in _NODE_SIGNERS]
    if call.operation != "CREATE" or dig(call.obj, ("spec", "signerName")) not in signers:
        return
    try:
        name = common_name(base64.b64decode(dig(call.obj, ("spec", "request")) or ""))
    except (ValueError, binascii.Error) as error:
        raise call.forbidden(f"unable to parse csr: {error}") from None
    if name != f"system:node:{node}":
        raise call.forbidden(f"can only create a node CSR with CN=system:node:{node}")


class PodCertificateChecks:
    """Checks of PodCertificateRequests of node agents."""

    def __init__(self, lister: Lister, identity: Identity, *, is_enabled: bool) -> None:
        self._lister, self._is_enabled = lister, is_enabled
        self._mirror = mirror_annotation(identity)

    def check(self, call: AdmissionRequest, node: str) -> None:
        """Reject a PodCertificateRequest that is not for a pod of *node*.

        :raises ApiError: 403; 500 if a named object differs from the stored one, which may be a race.
        """
        if not self._is_enabled:
            raise call.forbidden("PodCertificateRequest feature gate is disabled")
        if call.operation != "CREATE":
            raise call.forbidden(f"unexpected operation {call.operation}")
        if call.subresource:
            raise call.forbidden(f"unexpected subresource {call.subresource}")
        spec = call.obj.get("spec") or {}
        self._check_node(call, spec, node)
        self._check_pod(call, spec)

    def _check_node(self, call: AdmissionRequest, spec: Object, node: str) -> None:
        name, uid = spec.get("nodeName") or "", spec.get("nodeUID") or ""
        if name != node:
            text = f"PodCertificateRequest.Spec.NodeName={quote(name)}, which is not the requesting node {quote(node)}"
            raise call.forbidden(text)
        found = self._lister.find("core/nodes", name)
        if found is None:
            text = f"while retrieving node {quote(name)} named in the PodCertificateRequest"
            raise _inconsistent(f'{text}: node "{name}" not found')
        if (stored := found["metadata"]["uid"]) != uid:
            text = f"names node UID {quote(uid)}, inconsistent with the running node ({quote(stored)})"
            raise _inconsistent(f"PodCertificateRequest for pod {_pod_of(call, spec)} {text}")

    def _check_pod(self, call: AdmissionRequest, spec: Object) -> None:
        shown, name = _pod_of(call, spec), spec.get("podName") or ""
        pod = self._lister.find("core/pods", name, call.namespace)
        if pod is None:
            text = f"while retrieving pod {shown} named in the PodCertificateRequest"
            raise _inconsistent(f'{text}: pod "{name}" not found')
        uid, stored = spec.get("podUID") or "", pod["metadata"]["uid"]
        if uid != stored:
            text = f"contains pod UID ({quote(uid)}) which differs from running pod {quote(stored)}"
            raise _inconsistent(f"PodCertificateRequest for pod {shown} {text}")
        if pod["spec"].get("nodeName") != spec["nodeName"]:
            text = f"is not running on node {quote(spec['nodeName'])} named in the PodCertificateRequest"
            raise call.forbidden(f"pod {shown} {text}")
        if self._mirror in annotations_of(pod):
            raise call.forbidden(f"pod {shown} is a mirror pod")
        self._check_account(call, spec, pod)

    def _check_account(self, call: AdmissionRequest, spec: Object, pod: Object) -> None:
        name, expected = spec.get("serviceAccountName") or "", pod["spec"].get("serviceAccountName") or ""
        if name != expected:
            text = f"contains serviceAccountName ({quote(name)}) that differs from running pod ({quote(expected)})"
            raise call.forbidden(f"PodCertificateRequest for pod {_pod_of(call, spec)} {text}")
        account = self._lister.find("core/serviceaccounts", name, call.namespace)
        if account is None:
            shown = quote(f"{call.namespace}/{name}")
            text = f"while retrieving service account {shown} named in the PodCertificateRequest"
            raise _inconsistent(f'{text}: serviceaccount "{name}" not found')
        uid, stored = spec.get("serviceAccountUID") or "", account["metadata"]["uid"]
        if uid != stored:
            text = f"names service account UID {quote(uid)}, which differs from the running service account"
            raise _inconsistent(f"PodCertificateRequest for pod {_pod_of(call, spec)} {text} ({quote(stored)})")


def _pod_of(call: AdmissionRequest, spec: Object) -> str:
    return quote(f"{call.namespace}/{spec.get('podName') or ''}")


def _inconsistent(message: str) -> ApiError:
    return ApiError(500, "", message)
