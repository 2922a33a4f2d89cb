"""Fixtures: a claim manager with a fake driver and claims in a fake API."""

from __future__ import annotations

import pytest

from nodeagent.contracts.api import Resource
from nodeagent.testing import FakeApi, FakeClaimDriver, FakeClock, make_container, make_context, make_pod
from nodeagent_plugins.claims.allocated_claims import ResourceApi
from nodeagent_plugins.claims.checkpoint import Checkpoint
from nodeagent_plugins.claims.drivers import Drivers, RegisteredDriver
from nodeagent_plugins.claims.manager import Manager

CLAIMS = Resource("resource", "v1", "resourceclaims", "ResourceClaim")
GPU = "gpu.example.com"
BOOT = "4f0e6c1e-boot"


def claim_pod(name: str = "web", claim: str = "shared", **use: str):
    """Return a pod whose container uses the claim *claim*."""
    container = make_container("main", resources={"claims": [{"name": "gpu", **use}]})
    return make_pod(name, containers=[container], resource_claims=[{"name": "gpu", "resourceClaimName": claim}])


def add_claim(api: FakeApi, *pods: str, name: str = "shared", uid: str = "c-1", devices=((GPU, "gpu-0"),), **metadata):
    """Add a claim that is allocated and reserved for the pods with these UIDs."""
    results = [{"request": "one", "driver": driver, "pool": "node-1", "device": device} for driver, device in devices]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": pod} for pod in pods]}
    api.put(CLAIMS, {"metadata": {"name": name, "namespace": "default", "uid": uid, **metadata}, "status": status})


@pytest.fixture
def api():
    return FakeApi()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def context(tmp_path, clock, api):
    return make_context(tmp_path, clock=clock, api=api)


@pytest.fixture
def driver():
    return FakeClaimDriver()


@pytest.fixture
def drivers(driver):
    found = Drivers()
    found.add(RegisteredDriver(driver))
    return found


@pytest.fixture
def make_manager(context, api, drivers, tmp_path):
    """Return a function that starts a manager, as after a restart of the agent."""

    def make(boot_id: str = BOOT):
        manager = Manager(context, ResourceApi(api), drivers, Checkpoint(tmp_path, boot_id))
        manager.start()
        return manager

    return make


@pytest.fixture
def manager(make_manager):
    return make_manager()
