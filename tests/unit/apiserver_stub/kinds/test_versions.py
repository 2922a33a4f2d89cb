"""Tests for the API versions of kinds that differ between releases, and their deprecation."""

from __future__ import annotations

import pytest

from apiserver_stub.kinds.registry import Registry
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Record

CERTIFICATES, ADMISSION = "certificates.k8s.io", "admissionregistration.k8s.io"


def registry(minor: int) -> Registry:
    gates = ["ClusterTrustBundle", "PodCertificateRequest", *(["ValidatingAdmissionPolicy"] if minor == 29 else [])]
    settings = ",".join(f"{gate}=true" for gate in gates)
    options = [f"--compatibility-version=1.{minor}", f"--feature-gates={settings}"]
    return build_registry(parse([*options, "--runtime-config=api/alpha=true,api/beta=true"]))


def versions(found: Registry, plural: str) -> dict[str, str]:
    """Return the served versions of a resource with their deprecation warnings."""
    return {item.version: item.deprecation_warning.partition(" is ")[2] for item in found if item.plural == plural}


EARLY = "deprecated in v1.29+, unavailable in v1.32+"
LATE = "deprecated in v1.34+, unavailable in v1.37+"
POLICY = "deprecated in v1.31+, unavailable in v1.34+"


@pytest.mark.parametrize(
    ("minor", "bundles", "requests", "policies"),
    [
        (29, {"v1alpha1": EARLY}, {}, {"v1beta1": ""}),
        (30, {"v1alpha1": EARLY}, {}, {"v1": "", "v1beta1": ""}),
        (33, {"v1beta1": "", "v1alpha1": ""}, {}, {"v1": "", "v1beta1": POLICY}),
        (34, {"v1beta1": "", "v1alpha1": LATE}, {"v1alpha1": ""}, {"v1": ""}),
        (36, {"v1beta1": "", "v1alpha1": LATE}, {"v1beta1": ""}, {"v1": ""}),
    ],
)
def test_served_versions_depend_on_the_release(
    minor: int, bundles: dict[str, str], requests: dict[str, str], policies: dict[str, str]
) -> None:
    found = registry(minor)

    assert versions(found, "clustertrustbundles") == bundles
    assert versions(found, "podcertificaterequests") == requests
    assert versions(found, "validatingadmissionpolicies") == policies


def test_stored_object_is_read_in_each_version() -> None:
    found = registry(36)
    old = found.find(CERTIFICATES, "v1alpha1", "clustertrustbundles")
    new = found.find(CERTIFICATES, "v1beta1", "clustertrustbundles")
    assert old is not None and new is not None
    data = b'{"kind":"ClusterTrustBundle","apiVersion":"certificates.k8s.io/v1beta1","metadata":{"name":"a"}}'
    record = Record("a", 1, data)

    assert old.storage == new.storage
    assert old.read(record)["apiVersion"] == "certificates.k8s.io/v1alpha1"
    assert new.read(record)["apiVersion"] == "certificates.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("minor", "warning"), [(32, ""), (33, "deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")]
)
def test_endpoints_are_deprecated_since_1_33(minor: int, warning: str) -> None:
    assert versions(registry(minor), "endpoints") == {"v1": warning}
