"""Tests for configuration settings that affect pods."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import ProfileType
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.node_dns import CACHE_SECONDS


@pytest.mark.row("config.resolvConf")
async def test_default_dns_policy_uses_the_resolver_file(make_bench, tmp_path):
    other = tmp_path / "other.conf"
    other.write_text("nameserver 198.51.100.7\nsearch other.test\n")

    bench = make_bench(resolv_conf=str(other))
    await bench.sync(make_pod("a", dns_policy="Default"))
    silent = make_bench(resolv_conf="")
    await silent.sync(make_pod("b", dns_policy="Default"))

    assert bench.sandboxes()[0].dns.servers == ("198.51.100.7",)
    assert bench.sandboxes()[0].dns.searches == ("other.test",)
    assert silent.sandboxes()[0].dns.servers == ("127.0.0.1",)


async def test_changed_resolver_file_is_read_again(bench, resolver, clock):
    await bench.sync(make_pod("a", dns_policy="Default"))
    resolver.write_text("nameserver 198.51.100.99\n")
    await clock.advance(2)

    await bench.sync(make_pod("b", dns_policy="Default"))

    assert bench.sandboxes()[1].dns.servers == ("198.51.100.99",)


async def test_missing_resolver_file_is_reported(make_bench):
    bench = make_bench(resolv_conf="/nonexistent/resolv.conf")

    outcome = await bench.sync(make_pod())

    assert "/nonexistent/resolv.conf" in str(outcome.error)
    assert "FailedCreatePodSandBox" in bench.reasons()


@pytest.mark.row("config.clusterDNS")
async def test_pods_get_the_cluster_dns_servers(make_bench):
    bench = make_bench(cluster_dns=("10.96.0.10",))

    await bench.sync(make_pod())

    assert bench.sandboxes()[0].dns.servers == ("10.96.0.10",)
    assert "MissingClusterDNS" not in bench.reasons()


async def test_missing_cluster_dns_is_recorded_for_pod_and_node(bench):
    await bench.sync(make_pod())

    events = bench.context.recorder.of("MissingClusterDNS")
    assert {event.regarding.kind for event in events} == {"Pod", "Node"}


@pytest.mark.row("config.clusterDomain")
async def test_cluster_domain_is_searched_and_part_of_the_fqdn(make_bench):
    bench = make_bench(cluster_dns=("10.96.0.10",), cluster_domain="corp.test")

    await bench.sync(make_pod("web", namespace="ns", subdomain="sub"))

    assert bench.sandboxes()[0].dns.searches[:3] == ("ns.svc.corp.test", "svc.corp.test", "corp.test")
    hosts = next(m.host_path for m in bench.made()[0].mounts if m.container_path == "/etc/hosts")
    with open(hosts) as file:
        assert "\tweb.sub.ns.svc.corp.test\tweb\n" in file.read()


@pytest.mark.row("config.seccompDefault")
@pytest.mark.parametrize(
    ("default", "expected"), [(True, ProfileType.RUNTIME_DEFAULT), (False, ProfileType.UNCONFINED)]
)
async def test_seccomp_default_applies_to_containers_without_profile(make_bench, default, expected):
    bench = make_bench(seccomp_default=default)
    own = make_container("own", security_context={"seccompProfile": {"type": "Unconfined"}})

    await bench.sync(make_pod(containers=["main", own]))

    assert [config.security.seccomp.type for config in bench.made()] == [expected, ProfileType.UNCONFINED]


async def test_resolver_file_is_not_read_again_while_it_is_cached(bench, resolver, clock):
    await bench.sync(make_pod("a", dns_policy="Default"))
    resolver.write_text("nameserver 192.0.2.9\n")

    servers = []
    for name, pause in (("b", CACHE_SECONDS - 0.1), ("c", 0.1)):
        await clock.advance(pause)
        await bench.sync(make_pod(name, dns_policy="Default"))
        servers.append(bench.sandboxes()[-1].dns.servers)

    assert [tuple(each) for each in servers] == [("192.0.2.1",), ("192.0.2.9",)]
