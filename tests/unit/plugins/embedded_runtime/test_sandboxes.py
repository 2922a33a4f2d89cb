"""Tests for sandbox settings."""

from __future__ import annotations

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.sandboxes import compute_parameters, resolv_conf

ALL = {"net", "ipc", "uts"}


def test_sysctls_of_pod_namespaces_are_accepted():
    requested = {"net.core.somaxconn": "100", "kernel.shmmax": "1", "fs.mqueue.msg_max": "2"}

    assert compute_parameters(requested, ALL) == ["fs.mqueue.msg_max=2", "kernel.shmmax=1", "net.core.somaxconn=100"]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("kernel.panic", ALL),
        ("vm.swappiness", ALL),
        ("net.core.somaxconn", {"ipc"}),
        ("kernel.shmmax", {"net"}),
        ("net..core", ALL),
        ("net./../kernel", ALL),
    ],
)
def test_sysctls_outside_of_pod_namespaces_are_rejected(name, kinds):
    with pytest.raises(InvalidArgument, match="kernel parameter"):
        compute_parameters({name: "1"}, kinds)


def test_resolv_conf_contains_the_dns_config_of_the_pod():
    dns = cri.DNSConfig(servers=["10.0.0.1", "10.0.0.2"], searches=["a", "b"], options=["ndots:5"])

    text = resolv_conf(cri.PodSandboxConfig(dns_config=dns))

    assert text == "search a b\nnameserver 10.0.0.1\nnameserver 10.0.0.2\noptions ndots:5\n"


def test_value_of_a_sysctl_sets_no_other_one():
    value = "1+kernel.core_pattern=|/evil\nkernel.panic=1 net.ipv4.ip_forward=1"

    assert compute_parameters({"net.core.somaxconn": value}, ALL) == [f"net.core.somaxconn={value}"]
