"""Tests for the API versions of kinds that differ between releases, and their deprecation."""

from __future__ import annotations

import pytest

from apiserver_stub.kinds.registry import Registry
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Record

pytestmark = pytest.mark.covers("apiserver_stub.kinds")
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


STORED = [  # Releases in which the stored version is another one than in the release before.
    ("ipaddresses", {30: "v1alpha1", 31: "v1beta1", 33: "v1beta1", 34: "v1"}),
    ("servicecidrs", {30: "v1alpha1", 31: "v1beta1", 33: "v1beta1", 34: "v1"}),
    ("volumeattributesclasses", {30: "v1alpha1", 31: "v1beta1", 35: "v1beta1", 36: "v1"}),
    ("validatingadmissionpolicies", {30: "v1beta1", 31: "v1"}),
    ("flowschemas", {29: "v1beta3", 30: "v1"}),
    ("prioritylevelconfigurations", {29: "v1beta3", 30: "v1"}),
]
SERVED = [
    ("ipaddresses", {30: ["v1alpha1"], 31: ["v1beta1"], 32: ["v1beta1"], 33: ["v1", "v1beta1"]}),
    ("volumeattributesclasses", {30: ["v1alpha1"], 31: ["v1beta1"], 33: ["v1beta1"], 34: ["v1", "v1beta1"]}),
    ("validatingadmissionpolicies", {29: ["v1beta1"], 30: ["v1", "v1beta1"], 33: ["v1", "v1beta1"], 34: ["v1"]}),
    ("flowschemas", {29: ["v1", "v1beta3"], 31: ["v1", "v1beta3"], 32: ["v1"]}),
    ("resourceclaims", {33: [], 34: ["v1", "v1beta1", "v1beta2"]}),
]
GATES = {
    "ValidatingAdmissionPolicy": range(29, 30),
    "MultiCIDRServiceAllocator": range(29, 35),
    "VolumeAttributesClass": range(29, 36),
}


def all_versions(minor: int) -> Registry:
    """Return the resources of a server with every API version and kind."""
    gates = ",".join(f"{gate}=true" for gate, minors in GATES.items() if minor in minors)
    options = [f"--compatibility-version=1.{minor}", "--runtime-config=api/all=true"]
    return build_registry(parse([*options, *([f"--feature-gates={gates}"] if gates else [])]))


def test_versions_become_stable_and_stored_in_the_releases_of_upstream() -> None:
    found = {minor: all_versions(minor) for minor in range(29, 37)}

    for plural, releases in STORED:
        for minor, version in releases.items():
            stored = {item.hashed_version or item.version for item in found[minor] if item.plural == plural}
            assert stored == {version}, f"{plural} in 1.{minor}"
    for plural, served in SERVED:
        for minor, expected in served.items():
            names = {item.version for item in found[minor] if item.plural == plural}
            assert names - {"v1alpha1"} | ({"v1alpha1"} & set(expected)) == set(expected), f"{plural} in 1.{minor}"


def test_columns_change_in_the_releases_of_upstream() -> None:
    found = {minor: all_versions(minor) for minor in range(30, 37)}
    added = [
        ("jobs", 31, "Status"),
        ("cronjobs", 31, "Timezone"),
        ("priorityclasses", 32, "PreemptionPolicy"),
    ]

    def columns(minor: int, plural: str) -> list[str]:
        return next([column.name for column in item.columns] for item in found[minor] if item.plural == plural)

    for plural, minor, name in added:
        assert [name in columns(number, plural) for number in (minor - 1, minor)] == [False, True], plural
    assert [columns(minor, "resourcequotas").index("Age") for minor in (32, 33)] == [1, 3]
    assert ["Secrets" in columns(minor, "serviceaccounts") for minor in (34, 35)] == [True, False]


def test_namespaces_are_not_deleted_as_a_collection() -> None:
    found = {item.plural: item.verbs for item in registry(36)}

    assert "deletecollection" not in found["namespaces"]
    assert {"create", "delete", "list", "watch"} <= set(found["namespaces"])
    assert "deletecollection" in found["pods"]
