"""Leader election leases of control plane components that replace controllers of this server while they run."""

from __future__ import annotations

from datetime import datetime, timedelta

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.storage import Store
from nodeagent.base.identity import Identity

CONTROLLER_MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
HELD_FOR = timedelta(seconds=60)
"""Validity of a lease after its last renewal: four times the usual lease duration, since clocks of hosts differ."""


def is_held(store: Store, component: str, now: datetime, identity: Identity) -> bool:
    """Return whether an instance of *component* holds its leader election lease."""
    leases = store.collection(identity.group("coordination") + "/leases")
    record = leases.get(objects.key_of(identity.system_namespace, component))
    lease: Object = {} if record is None else objects.decode(record.data)
    renewed = parse_time(dig(lease, ("spec", "renewTime")))
    return bool(dig(lease, ("spec", "holderIdentity"))) and renewed is not None and now - renewed < HELD_FOR
