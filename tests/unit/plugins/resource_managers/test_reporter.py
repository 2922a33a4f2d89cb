"""Tests for the reporter of exclusive CPUs and pinned memory."""

from __future__ import annotations

import pytest

from nodeagent.contracts.topology import Hint
from nodeagent.testing.contracts import ResourceReporterContract
from nodeagent_plugins.resource_managers.cpu import CpuAssignments
from nodeagent_plugins.resource_managers.memory import MemoryAssignments
from nodeagent_plugins.resource_managers.reporter import AssignmentReporter

from .conftest import GI, guaranteed


class TestReporter(ResourceReporterContract):
    @pytest.fixture
    def pod(self):
        return guaranteed(main={"cpu": "2", "memory": "1Gi"})

    @pytest.fixture
    def reporter(self, topology, pod):
        cpus, memory = CpuAssignments(topology, frozenset({0})), MemoryAssignments(topology, {0: {"memory": GI}})
        for part in (cpus, memory):
            part.allocate(pod, pod.spec.containers[0], Hint(frozenset({1})))
        return AssignmentReporter(lambda: cpus, lambda: memory)

    def test_nodes_and_sizes_are_reported(self, reporter, pod):
        found = reporter.container_resources(pod, pod.spec.containers[0])
        allocatable = reporter.allocatable_resources()

        assert (found.cpus, [(m.type, m.size_bytes, m.numa_nodes) for m in found.memory]) == (
            [2, 10],
            [("memory", GI, (1,))],
        )
        assert [(m.numa_nodes, m.size_bytes) for m in allocatable.memory][:2] == [((0,), 3 * GI), ((1,), 4 * GI)]
        assert 0 not in allocatable.cpus

    def test_without_static_policies_nothing_is_allocatable(self):
        found = AssignmentReporter(lambda: None, lambda: None).allocatable_resources()
        assert not found.cpus and not found.memory
