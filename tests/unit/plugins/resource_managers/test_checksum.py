"""Tests for checksums, with state files of a kubelet."""

from __future__ import annotations

import pytest

from nodeagent_plugins.resource_managers.checksum import of_cpus, of_memory


@pytest.mark.parametrize(
    ("policy", "shared", "entries", "checksum"),
    [
        ("none", "", None, 1353318690),
        ("static", "0-63", {}, 1058907510),
        (
            "static",
            "0,10-15,25-31",
            {
                "fb15e10a-b6a5-4aaa-8fcd-76c1aa64e6fd": {"container-1": "1-9"},
                "777870b5-c64f-42f5-9296-688b9dc212ba": {"container-1": "16-24"},
            },
            318470969,
        ),
    ],
)
def test_cpu_checksum_equals_that_of_the_kubelet(policy, shared, entries, checksum):
    assert of_cpus({"policyName": policy, "defaultCpuSet": shared, "entries": entries}) == checksum


def test_memory_checksum_equals_that_of_the_kubelet():
    assert of_memory({"policyName": "None", "machineState": {}}) == 4236770233

    def node(assignments: int, *cells: int) -> object:
        memory = {"total": 10, "systemReserved": 1, "allocatable": 9, "reserved": 4, "free": 5}
        pages = {"total": 8, "systemReserved": 0, "allocatable": 8, "reserved": 8, "free": 0}
        tables = {"memory": memory, "hugepages-2Mi": pages}
        return {"numberOfAssignments": assignments, "memoryMap": tables, "cells": list(cells)}

    def block(resource: str, size: int, *nodes: int) -> object:
        return {"numaAffinity": list(nodes), "type": resource, "size": size}

    state = {
        "policyName": "Static",
        "machineState": {"10": node(0, 10), "0": node(1, 0), "1": node(2, 1, 2), "2": node(2, 1, 2)},
        "entries": {
            "u2": {"c": [block("memory", 7, 1, 2)]},
            "u1": {"b": [block("hugepages-2Mi", 8, 0), block("memory", 4, 0)], "a": []},
        },
    }
    assert of_memory(state) == 3247899954
