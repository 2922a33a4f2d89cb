"""Test support for plugin authors: fakes that implement the contracts, a stepped clock, builders and contract suites.

Public, and imported only by tests. It needs no root privileges, network or cluster::

    from nodeagent.testing import FakeClock, FakeRuntime, make_pod

The suites of ``nodeagent.testing.contracts`` test third-party implementations; see their docstrings.
"""

from nodeagent.contracts.events import RecordedEvent
from nodeagent.testing.api import FakeApi, Request
from nodeagent.testing.claims import FakeClaimDriver
from nodeagent.testing.clock import FakeClock, eventually
from nodeagent.testing.context import FakeContext, make_config, make_context
from nodeagent.testing.devices import FakeDeviceProvider, FakeDevices
from nodeagent.testing.fakes import (
    FakeAllocations,
    FakeCgroups,
    FakeObjects,
    FakePodDirectory,
    FakePodSource,
    FakeProber,
    FakePuller,
    FakeStats,
    FakeSyncer,
    FakeVolumeKind,
    FakeVolumes,
)
from nodeagent.testing.images import FakeImages
from nodeagent.testing.plugins import (
    admit,
    load_plugin,
    mutate_container,
    mutate_sandbox,
    notify,
    permit,
    permit_eviction,
    rank_for_eviction,
    reclaim_disk,
    report_node,
)
from nodeagent.testing.pods import make_container, make_pod, sandbox_config
from nodeagent.testing.recorder import FakeRecorder
from nodeagent.testing.runtime import Call, FakeRuntime

__all__ = [
    "Call",
    "FakeAllocations",
    "FakeApi",
    "FakeCgroups",
    "FakeClaimDriver",
    "FakeClock",
    "FakeContext",
    "FakeDeviceProvider",
    "FakeDevices",
    "FakeImages",
    "FakeObjects",
    "FakePodDirectory",
    "FakePodSource",
    "FakeProber",
    "FakePuller",
    "FakeRecorder",
    "FakeRuntime",
    "FakeStats",
    "FakeSyncer",
    "FakeVolumeKind",
    "FakeVolumes",
    "RecordedEvent",
    "Request",
    "admit",
    "eventually",
    "load_plugin",
    "make_config",
    "make_container",
    "make_context",
    "make_pod",
    "mutate_container",
    "mutate_sandbox",
    "notify",
    "permit",
    "permit_eviction",
    "rank_for_eviction",
    "reclaim_disk",
    "report_node",
    "sandbox_config",
]
