"""Tests for the leader leases of other components."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, SCHEDULER, is_held
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory

LEASES = "coordination.k8s.io/leases"


@pytest.mark.parametrize("component", [CONTROLLER_MANAGER, SCHEDULER])
async def test_lease_is_held_while_it_has_a_holder_and_is_renewed(clock: FakeClock, component: str) -> None:
    store, now = Memory(), clock.wall()
    lease = {"metadata": {"name": component, "namespace": "kube-system"}}
    assert not is_held(store, component, now, Identity())

    store.put(LEASES, lease)
    assert not is_held(store, component, now, Identity())
    store.put(LEASES, {**lease, "spec": {"holderIdentity": "", "renewTime": format_time(now)}})
    assert not is_held(store, component, now, Identity())
    store.put(LEASES, {**lease, "spec": {"holderIdentity": "host_1", "renewTime": format_time(now)}})
    assert is_held(store, component, now + timedelta(seconds=30), Identity())
    assert not is_held(store, component, now + HELD_FOR, Identity())
