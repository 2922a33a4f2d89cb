"""Services get addresses and node ports that nobody else has, and keep them."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from apiserver_stub.objects import encode_for_store
from apiserver_stub.resources.service_addresses import Refused, ServiceAddresses
from apiserver_stub.resources.services import ServiceStrategy
from apiserver_stub.status import ApiError
from apiserver_stub.store.base import Record
from apiserver_stub.store.collection import Collection

PORTS = range(30000, 30004)


class World:
    """A cluster's services, with a clock."""

    def __init__(self, *networks: str) -> None:
        self.time = 0.0
        ranges = [ip_network(text) for text in networks or ["10.0.0.0/29"]]
        self.addresses = ServiceAddresses(ranges, PORTS, now=lambda: self.time)
        self.services = Collection("core/services", 0)
        self.addresses.follow(self.services)
        self.strategy = ServiceStrategy(self.addresses)
        self._revision = 0

    def new(self, **spec: Any) -> Any:
        service: Any = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}
        self.strategy.default(service)
        self.strategy.prepare_create(service)
        return service

    def store(self, service: Any, name: str) -> Any:
        self._revision += 1
        service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, **service}
        self.services.load(Record(f"default/{name}", self._revision, encode_for_store(service)))
        return service

    def update(self, old: Any, **spec: Any) -> Any:
        new: Any = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}
        self.strategy.default(new)
        self.strategy.prepare_update(new, old, "")
        return new


def test_every_service_has_an_address_of_its_own_until_none_is_left() -> None:
    world = World()
    found = {world.store(world.new(), str(number))["spec"]["clusterIP"] for number in range(6)}

    assert found == {f"10.0.0.{number}" for number in range(1, 7)}  # neither the network's address nor the last one
    with pytest.raises(ApiError, match="range is full") as error:
        world.new()
    assert error.value.code == 500


def test_what_a_service_being_written_was_given_is_held_for_a_while() -> None:
    world = World()
    given = world.new(clusterIP="10.0.0.2")["spec"]["clusterIP"]

    with pytest.raises(ApiError, match=r"failed to allocate IP 10\.0\.0\.2: provided IP is already allocated"):
        world.new(clusterIP=given)
    world.time = 60
    assert world.new(clusterIP=given)["spec"]["clusterIPs"] == [given]


def test_an_address_is_free_again_with_its_service() -> None:
    world = World()
    world.store(world.new(clusterIP="10.0.0.2"), "a")
    world.new()  # looks at the services: it is theirs, no longer held
    world.services = Collection("core/services", 0)
    world.addresses.follow(world.services)

    assert world.new(clusterIP="10.0.0.2")["spec"]["clusterIP"] == "10.0.0.2"


@pytest.mark.parametrize("wanted", ["10.0.1.1", "10.0.0.0", "10.0.0.7"])
def test_an_address_outside_the_range_is_refused(wanted: str) -> None:
    with pytest.raises(ApiError) as error:
        World().new(clusterIP=wanted)

    assert error.value.code == 422
    assert f'[]string{{"{wanted}"}}: failed to allocate IP {wanted}: the provided IP' in error.value.message


def test_the_lower_addresses_are_left_to_those_who_choose_them() -> None:
    addresses = ServiceAddresses([ip_network("10.0.0.0/24")], PORTS)
    found = [int(addresses.take_address(addresses.networks[0]).rpartition(".")[2]) for _ in range(100)]

    assert min(found) > 16


@pytest.mark.parametrize(
    ("asked", "families", "count"),
    [
        ({}, ["IPv4"], 1),
        ({"ipFamilies": ["IPv6"]}, ["IPv6"], 1),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], 2),
        ({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}, ["IPv6", "IPv4"], 2),
        ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], 1),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"], 1),
    ],
)
def test_families(asked: Any, families: list[str], count: int) -> None:
    spec = World("10.0.0.0/24", "fd00:1::/112").new(**asked)["spec"]

    assert spec["ipFamilies"] == families
    assert len(spec["clusterIPs"]) == count
    if asked.get("clusterIP") != "None":
        assert ["IPv6" if ":" in ip else "IPv4" for ip in spec["clusterIPs"]] == families


def test_two_families_need_two_ranges() -> None:
    assert World().new(ipFamilyPolicy="PreferDualStack")["spec"]["ipFamilies"] == ["IPv4"]
    with pytest.raises(ApiError, match="this cluster is not configured for dual-stack services"):
        World().new(ipFamilyPolicy="RequireDualStack")
    with pytest.raises(ApiError, match=r'spec.ipFamilies\[0\]: Invalid value: "IPv6": not configured on this cluster'):
        World().new(ipFamilies=["IPv6"])


def test_node_ports() -> None:
    world = World()
    chosen = world.store(world.new(type="NodePort", ports=[{"port": 80, "nodePort": 30001}]), "a")
    both = [{"name": "u", "port": 53, "protocol": "UDP"}, {"name": "t", "port": 53, "protocol": "TCP"}]
    shared = world.store(world.new(type="NodePort", ports=both), "b")["spec"]["ports"]

    assert chosen["spec"]["ports"][0]["nodePort"] == 30001
    assert shared[0]["nodePort"] == shared[1]["nodePort"] in PORTS
    with pytest.raises(ApiError, match="30001: provided port is already allocated"):
        world.new(type="NodePort", ports=[{"port": 80, "nodePort": 30001}])
    with pytest.raises(ApiError, match="The range of valid ports is 30000-30003"):
        world.new(type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    with pytest.raises(ApiError, match="may not be used when `type` is 'ClusterIP'"):
        world.new(ports=[{"port": 80, "nodePort": 30002}])


def test_an_update_keeps_what_the_service_has() -> None:
    world = World()
    old = world.store(world.new(type="NodePort"), "a")
    kept = world.update(old, type="NodePort")
    plain = world.update(old, type="ClusterIP", ports=[dict(old["spec"]["ports"][0])])
    gone = world.update(old, type="ExternalName", externalName="x.example", **_addresses(old))
    back = world.update({"metadata": {}, "spec": {"type": "ExternalName", "ports": []}})

    assert kept["spec"]["clusterIPs"] == old["spec"]["clusterIPs"]
    assert kept["spec"]["ports"][0]["nodePort"] == old["spec"]["ports"][0]["nodePort"]
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert "clusterIP" not in gone["spec"]
    assert back["spec"]["clusterIP"] not in ("", old["spec"]["clusterIP"])


def test_a_cluster_address_may_not_change() -> None:
    world = World()
    old = world.store(world.new(clusterIP="10.0.0.1"), "a")
    new = world.update(old, clusterIP="10.0.0.2")

    (cause,) = world.strategy.validate_update(new, old, "")
    assert (cause.field, cause.message) == (
        "spec.clusterIPs[0]",
        'Invalid value: []string{"10.0.0.2"}: may not change once set',
    )


def test_services_that_share_an_address_are_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for name in "ab":
        world.store({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}}, name)
    world.store({"spec": {"clusterIP": "192.0.2.1"}}, "c")

    world.addresses.follow(world.services)

    assert "share what each should have alone" in caplog.text
    assert "outside the ranges" in caplog.text
    with pytest.raises(Refused):
        world.addresses.take_address(world.addresses.networks[0], "10.0.0.1")


def _addresses(service: Any) -> Any:
    return {name: service["spec"][name] for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")}
