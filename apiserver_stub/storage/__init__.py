"""Storage: records and their history in memory, durable in SQLite or etcd behind the :class:`Store` contract."""

from apiserver_stub.storage.base import Keep, Outcome, Probe, Put, Remove, Store, StoreRejected, StoreUnavailable
from apiserver_stub.storage.collection import Collection, Compacted
from apiserver_stub.storage.record import Change, Record

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
    "StoreRejected",
    "StoreUnavailable",
]
