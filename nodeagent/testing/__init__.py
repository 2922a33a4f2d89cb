"""What a plugin author tests with: fakes that keep the contracts, a stepped clock, builders, contract suites.

Public, and imported by tests alone. Nothing here needs root, a network or a cluster::

    from nodeagent.testing import FakeClock, FakeRuntime, make_pod

The suites of ``nodeagent.testing.contracts`` prove an implementation of one's own; see their docstrings.
"""

from nodeagent.contracts.events import RecordedEvent
from nodeagent.testing.api import FakeApi, Request
from nodeagent.testing.clock import FakeClock, eventually
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.fakes import (
    FakeCgroups,
    FakeObjects,
    FakePodDirectory,
    FakePodSource,
    FakeProber,
    FakePuller,
    FakeStats,
    FakeVolumeKind,
    FakeVolumes,
)
from nodeagent.testing.images import FakeImages
from nodeagent.testing.plugins import admit, load_plugin
from nodeagent.testing.pods import make_container, make_pod, sandbox_config
from nodeagent.testing.recorder import FakeRecorder
from nodeagent.testing.runtime import Call, FakeRuntime

__all__ = [
    "Call",
    "FakeApi",
    "FakeCgroups",
    "FakeClock",
    "FakeImages",
    "FakeObjects",
    "FakePodDirectory",
    "FakePodSource",
    "FakeProber",
    "FakePuller",
    "FakeRecorder",
    "FakeRuntime",
    "FakeStats",
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
    "sandbox_config",
]
