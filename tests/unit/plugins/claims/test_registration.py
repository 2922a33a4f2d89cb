"""Tests for the registration of DRA drivers: names, services, and rolling updates."""

from __future__ import annotations

import pytest

from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import ClaimError, PluginRegistrationError
from nodeagent.testing.contracts import PluginHandlerContract
from nodeagent_plugins.claims.drivers import Drivers
from nodeagent_plugins.claims.registration import DriverRegistration

GPU = "gpu.example.com"


def plugin(endpoint="/run/dra.sock", name=GPU, versions=("v1.DRAPlugin",)):
    return RegisteredPlugin("DRAPlugin", name, endpoint, versions, f"{endpoint}-reg")


@pytest.fixture
def drivers():
    return Drivers()


@pytest.fixture
def handler(drivers):
    return DriverRegistration(drivers)


class TestContract(PluginHandlerContract):
    @pytest.fixture
    def handler(self, handler):
        return handler

    @pytest.fixture
    def plugin(self):
        return plugin()


@pytest.mark.parametrize(
    ("versions", "service"),
    [
        (("v1beta1.DRAPlugin", "v1.DRAPlugin"), "v1beta1.DRAPlugin"),
        (("v2.DRAPlugin", "v1.DRAPlugin"), "v1.DRAPlugin"),
    ],
)
async def test_first_supported_service_is_used(handler, drivers, versions, service):
    await handler.register(plugin(versions=versions))

    assert drivers.get(GPU).service == service


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ((), "empty list of supported gRPC services (aka supported versions)"),
        (
            ("1.0.0",),
            'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet '
            '(["v1.DRAPlugin" "v1beta1.DRAPlugin" "v1alpha1.DRAResourceHealth"])',
        ),
    ],
)
async def test_driver_without_supported_service_is_rejected(handler, versions, reason):
    with pytest.raises(PluginRegistrationError) as error:
        await handler.validate(plugin(versions=versions))

    start = f"invalid supported gRPC versions of DRA driver plugin {GPU} at endpoint /run/dra.sock: "
    assert str(error.value) == start + reason


@pytest.mark.parametrize("name", ["", "-gpu", "a" * 64, "gpu/1"])
async def test_invalid_name_is_rejected(handler, name):
    with pytest.raises(PluginRegistrationError):
        await handler.validate(plugin(name=name))


async def test_longest_name_is_accepted(handler):
    await handler.validate(plugin(name="a" * 63))


@pytest.mark.parametrize(("versions", "has_health"), [((), False), (("v1alpha1.DRAResourceHealth",), True)])
async def test_health_is_watched_if_the_driver_reports_it(handler, drivers, versions, has_health):
    await handler.register(plugin(versions=("v1.DRAPlugin", *versions)))

    assert [registered.has_health for registered in drivers] == [has_health]


async def test_newest_connected_driver_is_used_during_a_rolling_update(handler, drivers):
    await handler.register(plugin("/run/old.sock"))
    await handler.register(plugin("/run/new.sock"))
    assert drivers.get(GPU).endpoint == "/run/new.sock"

    drivers.set_connected(drivers.find(GPU, "/run/new.sock"), connected=False)
    assert drivers.get(GPU).endpoint == "/run/old.sock"

    await handler.deregister(plugin("/run/old.sock"))
    assert drivers.get(GPU).endpoint == "/run/new.sock"
    await handler.deregister(plugin("/run/new.sock"))
    with pytest.raises(ClaimError, match=f"DRA driver {GPU} is not registered"):
        drivers.get(GPU)


async def test_endpoint_is_registered_once(handler):
    await handler.register(plugin())

    text = f"endpoint /run/dra.sock already registered for DRA driver plugin {GPU}"
    with pytest.raises(PluginRegistrationError, match=text):
        await handler.register(plugin())
