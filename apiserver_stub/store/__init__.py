"""Where objects live: records and their history in memory, durability behind the :class:`Store` contract."""

from apiserver_stub.store.base import (
    Change,
    Keep,
    Outcome,
    Probe,
    Put,
    Record,
    Remove,
    Store,
    StoreRefused,
    StoreUnavailable,
)
from apiserver_stub.store.collection import Collection, Compacted

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
