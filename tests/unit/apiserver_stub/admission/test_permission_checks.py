"""Tests for the permissions on signers that changes of certificate requests and trust bundles require."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.permission_checks import SignerPermission
from apiserver_stub.admission.plugins.certificate_approval import CertificateApproval
from apiserver_stub.admission.plugins.certificate_signing import CertificateSigning
from apiserver_stub.admission.plugins.cluster_trust_bundle_attest import ClusterTrustBundleAttest
from apiserver_stub.admission.pod_certificate_signing import PodCertificateSigning
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

SIGNER = "example.com/a"
GROUP = "certificates.k8s.io"
REQUESTS = Resource(GROUP, "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False)
POD_REQUESTS = Resource(GROUP, "v1beta1", "PodCertificateRequest", "podcertificaterequests")
BUNDLES = Resource(GROUP, "v1beta1", "ClusterTrustBundle", "clustertrustbundles", namespaced=False)


async def rejection(plugin: type[SignerPermission], allowed: str, *args: Any, **attributes: Any) -> str:
    """Return the error for a user with permission on the signers *allowed*, empty if the request is admitted."""

    async def authorize(user: User, info: RequestInfo) -> tuple[bool, str]:
        assert (info.verb, info.group, info.version, info.resource) == (plugin.verb, GROUP, "*", "signers")
        return info.name == allowed, ""

    try:
        await AdmissionChain([plugin(authorize, Identity())]).check(make_call(*args, **attributes))
    except ApiError as error:
        return f"{error.code} {error.message}"
    return ""


def signed(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "spec": {"signerName": SIGNER}, **fields}


@pytest.mark.parametrize(
    ("allowed", "is_admitted"),
    [(SIGNER, True), ("example.com/*", True), ("example.com/b", False), ("*", False), ("", False)],
)
@pytest.mark.row("admission.CertificateApproval")
async def test_permission_is_on_a_signer_or_all_of_its_domain(allowed: str, *, is_admitted: bool) -> None:
    attributes = {"operation": "UPDATE", "subresource": "approval", "resource": REQUESTS}
    found = await rejection(CertificateApproval, allowed, signed(), signed(), **attributes)

    problem = f'user not permitted to approve requests with signerName "{SIGNER}"'
    assert (not found) if is_admitted else (found.startswith("403") and problem in found)


@pytest.mark.parametrize(
    ("changes", "is_checked"),
    [
        ({}, False),
        ({"phase": "x"}, False),
        ({"certificate": "x"}, True),
        ({"conditions": [{"type": "Failed"}]}, True),
    ],
)
@pytest.mark.row("admission.CertificateSigning")
async def test_certificate_and_conditions_require_the_permission_to_sign(
    changes: dict[str, Any], *, is_checked: bool
) -> None:
    attributes = {"operation": "UPDATE", "subresource": "status", "resource": REQUESTS}
    objects = signed(status=changes), signed(status={})
    found = await rejection(CertificateSigning, "", *objects, **attributes)

    assert (f'user not permitted to sign requests with signerName "{SIGNER}"' in found) is is_checked
    assert not await rejection(CertificateSigning, SIGNER, *objects, **attributes)


@pytest.mark.parametrize(("status", "is_checked"), [({}, False), (None, False), ({"certificateChain": "x"}, True)])
async def test_status_of_pod_requests_requires_the_permission_to_sign(status: Any, *, is_checked: bool) -> None:
    attributes = {"operation": "UPDATE", "subresource": "status", "resource": POD_REQUESTS}
    objects = signed(status=status), signed()
    found = await rejection(PodCertificateSigning, "", *objects, **attributes)

    problem = f'spec.signerName: Forbidden: User "u" is not permitted to "sign" for signer "{SIGNER}"'
    assert (not found) if not is_checked else (found.startswith("422") and problem in found)
    assert not await rejection(PodCertificateSigning, SIGNER, *objects, **attributes)


def bundle(signer: str | None = SIGNER, text: str = "a", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b", **metadata}, "spec": {"signerName": signer, "trustBundle": text}}


@pytest.mark.parametrize(
    ("new", "old", "is_checked"),
    [
        (bundle(), None, True),
        (bundle(None), None, False),
        (bundle(""), None, False),
        (bundle(), bundle(), False),
        (bundle(text="b"), bundle(), True),
        (bundle(labels={"a": "b"}), bundle(), True),
        (bundle(resourceVersion="2", managedFields=[{}], finalizers=["f"]), bundle(), False),
        (bundle(None, text="b"), bundle(None), False),
    ],
)
@pytest.mark.row("admission.ClusterTrustBundleAttest")
async def test_trust_bundles_of_a_signer_require_the_permission(new: Any, old: Any, *, is_checked: bool) -> None:
    attributes = {"operation": "UPDATE" if old else "CREATE", "resource": BUNDLES}
    found = await rejection(ClusterTrustBundleAttest, "", new, old, **attributes)

    assert (f'user not permitted to attest for signerName "{SIGNER}"' in found) is is_checked
    assert not await rejection(ClusterTrustBundleAttest, SIGNER, new, old, **attributes)
