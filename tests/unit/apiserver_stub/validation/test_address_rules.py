"""Tests for the rules of ambiguous addresses by release and feature gate."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.endpoint_slices import slice_warnings, validate_slice
from apiserver_stub.validation.endpoints import subset_warnings, validate_subsets
from apiserver_stub.validation.nodes import node_warnings, validate_node
from apiserver_stub.validation.overlapping_paths import overlap_warnings
from apiserver_stub.validation.pod_warnings import pod_status_warnings, pod_warnings
from nodeagent.base.identity import Identity
from nodeagent.base.release import NEWEST, OLDEST

LATER, STRICT = AddressRules(NEWEST), AddressRules(NEWEST, is_strict=True)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("10.0.0.1", ""),
        ("fd00::1", ""),
        ("x", ""),
        ("010.0.0.1", 'f: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"'),
        ("::ffff:1.2.3.4", 'f: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"'),
        ("fd00:0::1", 'f: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")'),
    ],
)
def test_warnings_of_addresses(text: str, warning: str) -> None:
    assert LATER.warnings("f", text) == ([warning] if warning else [])


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("10.0.0.0/8", []),
        ("fd00::/8", []),
        ("x", []),
        ("10.0.0.0/33", []),
        (
            "10.1.2.3/8",
            ['f: CIDR value "10.1.2.3/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.1.2.3/32"?)'],
        ),
        ("10.0.0.0/08", ['f: non-standard CIDR value "10.0.0.0/08" is invalid: use "10.0.0.0/8"']),
        ("::ffff:1.2.3.0/120", ['f: non-standard CIDR value "::ffff:1.2.3.0/120" is invalid: use "1.2.3.0/24"']),
        ("fd00:0::/64", ['f: IPv6 CIDR value "fd00:0::/64" should be in RFC 5952 canonical format ("fd00::/64")']),
    ],
)
def test_warnings_of_blocks(text: str, warnings: list[str]) -> None:
    assert LATER.block_warnings("f", text) == warnings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0/8", ""),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("::ffff:1.2.3.4/128", "must not have an IPv4-mapped IPv6 address"),
    ],
)
def test_ambiguous_blocks_are_errors_with_the_strict_gate(text: str, problem: str) -> None:
    assert [cause.message.rpartition(": ")[2] for cause in STRICT.validate_block(text, "f")] == (
        [problem] if problem else []
    )
    assert STRICT.validate_block(text, "f", [text]) == LATER.validate_block(text, "f") == []


def test_strict_gate_applies_to_nodes_and_endpoints() -> None:
    slice_ = {"addressType": "IPv4", "endpoints": [{"addresses": ["010.0.0.1"]}]}
    subsets = [{"addresses": [{"ip": "010.0.0.1"}]}]
    node = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.1/8"]}}

    assert [cause.field for cause in validate_slice(slice_, STRICT)] == ["endpoints[0].addresses[0]"]
    assert [cause.field for cause in validate_subsets(subsets, STRICT)] == ["subsets[0].addresses[0].ip"]
    assert [cause.field for cause in validate_node(node, Identity(), STRICT)] == ["spec.podCIDRs[0]"]
    assert validate_slice(slice_) == validate_subsets(subsets) == validate_node(node, Identity()) == []
    assert [len(found) for found in (slice_warnings(slice_, LATER), subset_warnings(subsets, LATER))] == [1, 1]
    assert len(node_warnings(node, LATER)) == 1
    assert slice_warnings(slice_, EARLY_RULES) == subset_warnings(subsets, EARLY_RULES) == []
    assert node_warnings(node, EARLY_RULES) == []


def test_pods_have_warnings_about_addresses_in_later_releases() -> None:
    spec = {"dnsConfig": {"nameservers": ["010.0.0.1"]}, "hostAliases": [{"ip": "fd00:0::1"}]}
    status = {"podIPs": [{"ip": "010.0.0.1"}], "hostIPs": [{"ip": "10.0.0.1"}]}

    found = [warning.partition(": ")[0] for warning in pod_warnings({}, spec, Identity(), release=NEWEST)]
    assert found == ["spec.dnsConfig.nameservers[0]", "spec.hostAliases[0].ip"]
    assert pod_warnings({}, spec, Identity(), release=OLDEST) == []
    (warning,) = pod_status_warnings(status, NEWEST)
    assert warning.startswith("status.podIPs[0].ip: ")
    assert pod_status_warnings(status, OLDEST) == []


def test_overlapping_paths_of_a_volume_are_warned_about() -> None:
    items = [{"key": "a", "path": "a"}, {"key": "b", "path": "a/b"}, {"key": "c", "path": "c/"}]
    projected = {
        "sources": [
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "t"}]}},
            {"serviceAccountToken": {"path": "t"}},
            {"clusterTrustBundle": {"signerName": "s", "path": "t/x"}},
            {"podCertificate": {"keyPath": "t"}},
            {},
        ]
    }
    volumes = [{"name": "v", "configMap": {"name": "m", "items": items}}, {"name": "p", "projected": projected}]

    assert list(overlap_warnings(volumes)) == [
        'volume "v" (ConfigMap "m"): overlapping paths: "a/b" with "a"',
        'volume "p" (Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (ConfigMap "m")',
        'volume "p" (Projected): overlapping paths: "t/x" (ClusterTrustBundle "s") with "t" (ConfigMap "m")',
        'volume "p" (Projected): overlapping paths: "t/x" (ClusterTrustBundle "s") with "t" (ServiceAccountToken)',
        'volume "p" (Projected): overlapping paths: "t" (PodCertificate key) with "t" (ConfigMap "m")',
        'volume "p" (Projected): overlapping paths: "t" (PodCertificate key) with "t" (ServiceAccountToken)',
        'volume "p" (Projected): overlapping paths: "t" (PodCertificate key) with "t/x" (ClusterTrustBundle "s")',
        'volume "p" (Projected) has no sources provided',
    ]
