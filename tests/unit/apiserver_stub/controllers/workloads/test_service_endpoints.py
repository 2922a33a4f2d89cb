"""Tests for the endpoints of a Service: which pods, addresses and ports they have, and their distribution to slices."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.workloads import service_endpoints as endpoints

HTTP = {"name": "http", "port": 80, "targetPort": 8080}


def service(*ports: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "web"}, "spec": {"ports": list(ports), **spec}}


def pod(
    name: str = "a", ip: str | None = "10.0.0.1", *, ready: bool = True, deleted: bool = False, **fields: Any
) -> Object:
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "conditions": [condition], **fields.pop("status", {})}
    if ip is not None:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return {"metadata": metadata, "spec": fields, "status": status}


def containers(*ports: Object) -> list[Object]:
    return [{"name": "none"}, {"name": "c", "ports": list(ports)}]


def test_ports_are_numbers_or_names_of_container_ports() -> None:
    named = containers({"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"name": "dns", "containerPort": 54})
    for title, port, expected in (
        ("number", {"port": 80, "targetPort": 8080}, [("", 8080, "TCP")]),
        ("port of the Service", {"port": 80}, [("", 80, "TCP")]),
        ("zero", {"port": 80, "targetPort": 0}, [("", 80, "TCP")]),
        ("protocol", {"name": "x", "port": 80, "protocol": "UDP"}, [("x", 80, "UDP")]),
        ("name", {"port": 1, "targetPort": "dns"}, [("", 54, "TCP")]),
        ("name with protocol", {"port": 1, "targetPort": "dns", "protocol": "UDP"}, [("", 53, "UDP")]),
        ("missing name", {"port": 1, "targetPort": "http"}, []),
        ("name with a missing protocol", {"port": 1, "targetPort": "dns", "protocol": "SCTP"}, []),
    ):
        found = endpoints.ports_of(service(port), pod(containers=named))
        assert [(item.name, item.number, item.protocol) for item in found] == expected, title
    assert endpoints.ports_of({"metadata": {}, "spec": {}}, pod()) == ()
    assert endpoints.ports_of(service({"port": 1, "targetPort": "x"}), pod()) == ()


def test_rendered_ports_contain_names_in_slices_only_if_empty() -> None:
    nameless, full = endpoints.Port("", 80, "TCP"), endpoints.Port("http", 80, "TCP", "h2c")
    assert nameless.render(always_named=False) == {"port": 80, "protocol": "TCP"}
    assert nameless.render(always_named=True) == {"name": "", "port": 80, "protocol": "TCP"}
    assert full.render(always_named=False) == {"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}


def test_endpoints_are_running_pods_with_an_address() -> None:
    for title, found, terminating, expected in (
        ("running", pod(), False, True),
        ("pending", pod(status={"phase": "Pending"}), False, True),
        ("succeeded", pod(status={"phase": "Succeeded"}), True, False),
        ("failed", pod(status={"phase": "Failed"}), True, False),
        ("no address", pod(ip=None), True, False),
        ("deleted", pod(deleted=True), False, False),
        ("deleted, but included", pod(deleted=True), True, True),
    ):
        assert endpoints.is_endpoint(found, terminating=terminating) is expected, title


def test_subsets_group_addresses_by_ports_and_readiness() -> None:
    def summary(*pods: Object, of: Object) -> list[tuple[list[str], list[str], list[int]]]:
        return [
            (
                [item["ip"] for item in subset.get("addresses", ())],
                [item["ip"] for item in subset.get("notReadyAddresses", ())],
                [item["port"] for item in subset.get("ports", ())],
            )
            for subset in endpoints.subsets(of, pods)
        ]

    one, two = pod("a", "10.0.0.2"), pod("b", "10.0.0.1")
    waiting, leaving = pod("c", "10.0.0.3", ready=False), pod("d", "10.0.0.4", deleted=True)
    web = service(HTTP)
    assert summary(one, waiting, two, leaving, of=web) == [(["10.0.0.1", "10.0.0.2"], ["10.0.0.3"], [8080])]
    publishing = service(HTTP, publishNotReadyAddresses=True)
    assert summary(waiting, leaving, of=publishing) == [(["10.0.0.3", "10.0.0.4"], [], [8080])]
    assert summary(one, of=service()) == [(["10.0.0.2"], [], [])]

    by_name = service({"name": "http", "port": 80, "targetPort": "http"})
    high = pod("h", "10.0.0.5", containers=containers({"name": "http", "containerPort": 90}))
    low = pod("l", "10.0.0.6", containers=containers({"name": "http", "containerPort": 80}))
    assert summary(one, high, low, of=by_name) == [(["10.0.0.6"], [], [80]), (["10.0.0.5"], [], [90])]
    same_address = endpoints.subsets(web, [pod("y"), pod("x")])[0]["addresses"]
    assert [item["targetRef"]["name"] for item in same_address] == ["x", "y"]


def test_conditions_of_slice_endpoints() -> None:
    for title, found, spec, expected in (
        ("ready", pod(), {}, (True, True, False)),
        ("not ready", pod(ready=False), {}, (False, False, False)),
        ("terminating", pod(deleted=True), {}, (False, True, True)),
        ("terminating and not ready", pod(deleted=True, ready=False), {}, (False, False, True)),
        ("published", pod(deleted=True, ready=False), {"publishNotReadyAddresses": True}, (True, True, True)),
        ("other condition", pod(status={"conditions": [{"type": "X", "status": "True"}]}), {}, (False, False, False)),
        ("no conditions", pod(status={"conditions": None}), {}, (False, False, False)),
    ):
        ((endpoint,),) = endpoints.slice_endpoints(service(HTTP, **spec), [found], "IPv4", {}).values()
        conditions = endpoint["conditions"]
        assert (conditions["ready"], conditions["serving"], conditions["terminating"]) == expected, title


def test_slice_endpoints_name_host_node_zone_and_pod() -> None:
    found = pod(nodeName="n", hostname="h", subdomain="web")
    ((endpoint,),) = endpoints.slice_endpoints(service(HTTP), [found], "IPv4", {"n": "z"}).values()
    del endpoint["conditions"]
    assert endpoint == {
        "addresses": ["10.0.0.1"],
        "hostname": "h",
        "nodeName": "n",
        "zone": "z",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
    }
    for fields in ({"hostname": "h", "subdomain": "db"}, {"hostname": "h"}, {"subdomain": "web"}):
        ((endpoint,),) = endpoints.slice_endpoints(service(HTTP), [pod(**fields)], "IPv4", {}).values()
        assert "hostname" not in endpoint, fields
    ((endpoint,),) = endpoints.slice_endpoints(service(HTTP), [pod(nodeName="n")], "IPv4", {"m": "z"}).values()
    assert "zone" not in endpoint


def test_pods_without_the_ports_or_the_address_family_are_left_out() -> None:
    for title, found, expected in (
        ("ports", endpoints.slice_endpoints(service(HTTP), [pod()], "IPv4", {}), 1),
        ("no ports", endpoints.slice_endpoints(service(), [pod()], "IPv4", {}), 1),
        ("missing", endpoints.slice_endpoints(service({"port": 1, "targetPort": "x"}), [pod()], "IPv4", {}), 0),
        ("IPv6", endpoints.slice_endpoints(service(HTTP), [pod()], "IPv6", {}), 0),
        ("failed", endpoints.slice_endpoints(service(HTTP), [pod(status={"phase": "Failed"})], "IPv4", {}), 0),
    ):
        assert len(found) == expected, title
    for status, ip_family, expected_address in (
        ({"podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]}, "IPv4", "10.0.0.1"),
        ({"podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]}, "IPv6", "fd00::1"),
        ({"podIP": "10.0.0.2"}, "IPv4", "10.0.0.2"),
        ({"podIPs": [{"ip": "x"}, {}]}, "IPv4", ""),
        ({}, "IPv4", ""),
    ):
        assert endpoints.address_of({"status": status}, ip_family) == expected_address, (status, ip_family)


def test_endpoints_stay_in_their_slice_and_fill_it_up() -> None:
    def endpoint(number: int) -> Object:
        return {"addresses": [f"10.0.{number}.1"], "targetRef": {"uid": f"u{number}"}}

    first, second = {"endpoints": [endpoint(1), endpoint(2)]}, {"endpoints": [endpoint(3)]}
    desired = [endpoint(number) for number in (1, 3, *range(10, 215))]
    kept, new = endpoints.distribute([first, second, {}], desired)
    assert [slice for slice, _ in kept] == [first, second, {}]
    assert [(items[0], len(items)) for _, items in kept] == [(endpoint(1), 100), (endpoint(3), 100), (endpoint(208), 7)]
    assert new == []
    assert [len(items) for items in endpoints.distribute([], desired)[1]] == [100, 100, 7]
    without_pod = {"addresses": None}
    assert endpoints.distribute([{"endpoints": [without_pod]}], [without_pod])[0][0][1] == [without_pod]
