"""Tests for host names and hosts files."""

from __future__ import annotations

import pytest

from nodeagent.errors import NodeAgentError
from nodeagent.testing import make_pod
from nodeagent_plugins.pod_sync.hosts import host_names, hosts_file, kernel_hostname


def test_hostname_is_the_truncated_pod_name():
    assert host_names(make_pod("web"), "c.test") == ("web", "")
    assert host_names(make_pod("a" * 62 + "-b"), "c.test")[0] == "a" * 62
    assert host_names(make_pod("web", hostname="h", subdomain="sub"), "c.test") == ("h", "sub.default.svc.c.test")

    assert host_names(make_pod("web", subdomain="sub"), "") == ("web", "sub.default.svc.")


def test_overridden_hostname_has_no_domain():
    override = make_pod("web", hostname="h", subdomain="sub", hostname_override="a.example.org")

    assert host_names(override, "c.test") == ("a.example.org", "")
    assert host_names(make_pod("web", hostname_override="a" * 64), "c.test") == ("a" * 63, "")


def test_fqdn_must_not_exceed_the_kernel_limit():
    pod = make_pod("web", set_hostname_as_fqdn=True)

    assert kernel_hostname(pod, "web", "d.test") == "web.d.test"
    assert kernel_hostname(pod, "web", "d" * 60) == f"web.{'d' * 60}"
    assert kernel_hostname(make_pod(), "web", "d.test") == "web"
    with pytest.raises(NodeAgentError, match=r"^failed to construct FQDN .* too long"):
        kernel_hostname(pod, "web", "d" * 61)


def test_hosts_file_of_a_pod_with_two_addresses():
    text = hosts_file(make_pod(), ["10.0.0.1", "fd00::1"], "web", "d.test")

    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert text.endswith("10.0.0.1\tweb.d.test\tweb\nfd00::1\tweb.d.test\tweb\n")


def test_hosts_file_in_the_host_network_is_that_of_the_node():
    pod = make_pod(host_network=True, host_aliases=[{"ip": "10.1.1.1", "hostnames": ["a", "b"]}])

    text = hosts_file(pod, ["192.0.2.1"], "web", "", "127.0.0.1 node\n")

    assert text == (
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n"
        "\n# Entries added by HostAliases.\n10.1.1.1\ta\tb\n"
    )
