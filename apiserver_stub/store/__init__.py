"""Storage: records and their history in memory, durable in SQLite or etcd behind the :class:`Store` contract."""

from apiserver_stub.store.base import Keep, Outcome, Probe, Put, Remove, Store, StoreRefused, StoreUnavailable
from apiserver_stub.store.collection import Collection, Compacted
from apiserver_stub.store.record import Change, Record

__all__ = [
    "Change",
    "Collection",
    "Compacted",
    "Keep",
    "Outcome",
    "Probe",
    "Put",
    "Record",
    "Remove",
    "Store",
    "StoreRefused",
    "StoreUnavailable",
]
