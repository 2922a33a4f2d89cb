"""Tests for the DNS configuration of pods."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import DnsConfig
from nodeagent.testing import make_pod
from nodeagent_plugins.pod_sync.dns import ClusterDns, make_dns, parse_resolver, resolver_problems

HOST = DnsConfig(("192.0.2.1",), ("one.test",), ("ndots:2", "rotate"))
CLUSTER = ClusterDns(("10.96.0.10",), "cluster.test")


def test_resolver_file_is_parsed_like_a_resolver_does():
    text = """# a comment
search first.test
nameserver 192.0.2.1 ; trailing
nameserver\tfd00::1
search one.test. . two.test
options ndots:1 rotate
options ndots:3
"""

    assert parse_resolver(text) == DnsConfig(("192.0.2.1", "fd00::1"), ("one.test", "two.test"), ("ndots:3", "rotate"))


def test_cluster_first_uses_cluster_dns_and_host_search_domains():
    config = make_dns(make_pod(namespace="ns"), CLUSTER, HOST).config

    assert config.servers == ("10.96.0.10",)
    assert config.searches == ("ns.svc.cluster.test", "svc.cluster.test", "cluster.test", "one.test")
    assert config.options == ("ndots:5",)


@pytest.mark.parametrize(
    ("policy", "host_network", "servers"),
    [
        ("ClusterFirst", True, HOST.servers),
        ("ClusterFirstWithHostNet", True, CLUSTER.servers),
        ("Default", False, HOST.servers),
        ("None", False, ()),
    ],
)
def test_policy_selects_the_name_servers(policy, host_network, servers):
    pod = make_pod(dns_policy=policy, host_network=host_network)

    assert make_dns(pod, CLUSTER, HOST).config.servers == servers


def test_pod_uses_the_resolver_file_without_cluster_dns():
    result = make_dns(make_pod(), ClusterDns(domain="cluster.test"), HOST)

    assert result.missing_cluster_dns
    assert result.config == HOST


@pytest.mark.parametrize(
    ("ips", "servers"),
    [
        ((), ("127.0.0.1",)),
        (("192.0.2.5", "192.0.2.6"), ("127.0.0.1",)),
        (("fd00::5",), ("::1",)),
        (("fd00::5", "192.0.2.5"), ("::1", "127.0.0.1")),
    ],
)
def test_local_servers_are_used_without_a_resolver_file(ips, servers):
    cluster = ClusterDns(resolver_file="", node_ips=ips)

    config = make_dns(make_pod(dns_policy="Default"), cluster, DnsConfig()).config

    assert config == DnsConfig(servers, (".",))


def test_dns_config_of_the_pod_is_added():
    own = {
        "nameservers": ["10.96.0.10", "8.8.8.8"],
        "searches": ["mine.test"],
        "options": [{"name": "ndots", "value": "1"}, {"name": "edns0"}],
    }

    config = make_dns(make_pod(dns_config=own), CLUSTER, HOST).config

    assert config.servers == ("10.96.0.10", "8.8.8.8")
    assert config.searches[-1] == "mine.test"
    assert config.options == ("ndots:1", "edns0")


def test_exceeded_limits_are_applied_and_reported():
    own = {"nameservers": [f"10.0.0.{n}" for n in range(5)], "searches": [f"s{n}.test" for n in range(40)]}

    result = make_dns(make_pod(dns_policy="None", dns_config=own), CLUSTER, HOST)

    assert len(result.config.servers) == 3
    assert len(result.config.searches) == 32
    assert len(result.cut) == 2


def test_long_search_line_loses_its_last_entries():
    own = {"searches": [f"{'a' * 200}{n}.test" for n in range(20)]}

    result = make_dns(make_pod(dns_policy="None", dns_config=own), CLUSTER, HOST)

    assert len(" ".join(result.config.searches)) <= 2048
    assert result.config.searches[0].startswith("a")


def test_full_resolver_file_is_reported():
    full = DnsConfig((), tuple(f"s{n}" for n in range(30)))

    assert resolver_problems(full, with_domain=True)
    assert not resolver_problems(full, with_domain=False)


@pytest.mark.parametrize(("count", "cut"), [(3, 0), (4, 1)])
def test_number_of_name_servers_is_limited(count, cut):
    own = {"nameservers": [f"10.0.0.{n}" for n in range(count)]}

    result = make_dns(make_pod(dns_policy="None", dns_config=own), CLUSTER, HOST)

    assert (len(result.config.servers), len(result.cut)) == (3, cut)


@pytest.mark.parametrize(
    ("searches", "kept"),
    [
        ([f"s{n}" for n in range(32)], 32),
        ([f"s{n}" for n in range(33)], 32),
        (["a" * 253, "b"], 2),
        (["a" * 254, "b"], 1),
        ([f"{n}{'a' * 249}" for n in range(8)] + ["b" * 40], 9),
        ([f"{n}{'a' * 249}" for n in range(8)] + ["b" * 41], 8),
    ],
)
def test_search_domains_up_to_the_limits_of_resolvers_are_kept(searches, kept):
    result = make_dns(make_pod(dns_policy="None", dns_config={"searches": searches}), CLUSTER, HOST)

    assert len(result.config.searches) == kept
    assert bool(result.cut) is (kept < len(searches))


@pytest.mark.parametrize(
    ("searches", "with_domain", "problems"),
    [
        ([f"s{n}" for n in range(29)], True, 0),
        ([f"s{n}" for n in range(32)], False, 0),
        ([f"s{n}" for n in range(33)], False, 1),
        (["a" * 1024, "b" * 1023], False, 0),
        (["a" * 1024, "b" * 1024], False, 1),
    ],
)
def test_resolver_file_above_the_limits_is_reported(searches, with_domain, problems):
    assert len(resolver_problems(DnsConfig((), tuple(searches)), with_domain=with_domain)) == problems
