"""Tests for the options of service ranges and node ports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apiserver_stub.options import OptionsError, parse, warnings

ROW = pytest.mark.row


@ROW("opt.service-cluster-ip-range")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("nonsense", "service-cluster-ip-range[0] is not a valid cidr"),
        ("10.0.0.0/24,x", "service-cluster-ip-range[1] is not a valid cidr"),
        (
            "10.0.0.0/11",
            "--service-cluster-ip-range is too large; for 32-bit addresses, the mask must be >= 12",
        ),
        (
            "10.0.0.0/24,fd00::/64",
            "--service-cluster-ip-range[1] is too large; for 128-bit addresses, the mask",
        ),
        ("10.0.0.0/30", "the service cluster IP range must be at least 8 IP addresses"),
        ("10.0.0.0/24,10.1.0.0/24", "must be of different IP family"),
        ("10.0.0.0/24,fd00::/112,10.2.0.0/24", "--service-cluster-ip-range must not contain more than two entries"),
    ],
)
def test_invalid_ranges_are_rejected(value: str, problem: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse([f"--service-cluster-ip-range={value}"])

    assert problem in str(error.value)


def test_primary_range_has_the_ip_family_of_the_server() -> None:
    arguments = ["--service-cluster-ip-range=fd00::/112", "--advertise-address=192.0.2.1"]
    with pytest.raises(OptionsError, match="must match public address family"):
        parse(arguments)
    assert parse([*arguments, "--endpoint-reconciler-type=none"]).service_networks[0].version == 6


@ROW("opt.service-node-port-range")
def test_node_port_range_is_parsed() -> None:
    assert parse([]).service_node_port_range == range(30000, 32768)
    assert parse(["--service-node-port-range=4000-4010"]).service_node_port_range == range(4000, 4011)
    assert parse(["--service-node-port-range=4000+10"]).service_node_port_range == range(4000, 4011)
    for value, problem in (
        ("foo", 'strconv.Atoi: parsing "foo": invalid syntax'),
        ("40000-30000", "end port cannot be less than start port: 40000-30000"),
        ("60000-70000", "cannot be greater than 65535"),
    ):
        with pytest.raises(OptionsError, match=problem):
            parse([f"--service-node-port-range={value}"])


@ROW("opt.platform-service-node-port")
def test_kubernetes_service_node_port_must_be_in_the_range() -> None:
    for value, problem in (
        ("-1", "--platform-service-node-port -1 must be between 0 and 65535, inclusive"),
        ("80", "service node port range 30000-32767 doesn't contain 80"),
    ):
        with pytest.raises(OptionsError, match=problem):
            parse([f"--platform-service-node-port={value}"])


@ROW("opt.endpoint-reconciler-type")
def test_unknown_reconcilers_are_rejected() -> None:
    with pytest.raises(OptionsError, match="Reconciler not implemented: foo"):
        parse(["--endpoint-reconciler-type=foo"])
    assert any("deprecated" in text for text in warnings(parse(["--endpoint-reconciler-type=master-count"])))


@ROW("opt.cloud-provider-cloudvendor-l7lb-src-cidrs")
@pytest.mark.parametrize("prefix", ["cloud-provider-cloudvendor", "cloud-provider-gce"])
def test_cloud_cidrs_are_validated_and_reported_without_effect(prefix: str) -> None:
    """Existing units set this option, which only cloud providers use."""
    standard, options = parse([]), parse([f"--{prefix}-l7lb-src-cidrs=192.0.2.0/24,2001:db8::/32"])

    assert standard.cloud_provider_cloudvendor_l7lb_src_cidrs == ("130.211.0.0/22", "35.191.0.0/16")
    assert options.cloud_provider_cloudvendor_l7lb_src_cidrs == ("192.0.2.0/24", "2001:db8::/32")
    assert [text for text in warnings(options) if "it configures no firewall" in text]
    assert not any("no effect" in text for text in warnings(standard))
    with pytest.raises(OptionsError, match="invalid CIDR address: x"):
        parse([f"--{prefix}-l7lb-src-cidrs=192.0.2.0/24,x"])


@ROW("opt.cloudvendor-container-registry-config")
@pytest.mark.parametrize("name", ["cloudvendor-container-registry-config", "azure-container-registry-config"])
def test_cloud_registry_is_validated_and_reported_without_effect(name: str, tmp_path: Path) -> None:
    """Existing units set this option, which only image pulls use."""
    config = tmp_path / "registry.json"
    with pytest.raises(OptionsError, match=f"open {re.escape(str(config))}: no such file or directory"):
        parse([f"--{name}={config}"])
    config.write_text("{}")
    options = parse([f"--{name}={config}"])

    assert options.cloudvendor_container_registry_config == config
    assert [text for text in warnings(options) if "it pulls no images" in text]
    assert not any("no effect" in text for text in warnings(parse([])))
