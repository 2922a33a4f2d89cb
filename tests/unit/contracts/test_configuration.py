"""Tests for the names of configuration fields in files."""

from __future__ import annotations

import pytest

from nodeagent.contracts.configuration import wire_name


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("cpu_cfs_quota_period", "cpuCFSQuotaPeriod"),
        ("make_iptables_util_chains", "makeIPTablesUtilChains"),
        ("iptables_drop_bit", "iptablesDropBit"),
        ("reserved_system_cpus", "reservedSystemCPUs"),
        ("static_pod_url_header", "staticPodURLHeader"),
        ("node_status_max_images", "nodeStatusMaxImages"),
    ],
)
def test_names_in_files_are_the_specified_ones(attribute, name):
    assert wire_name(attribute) == name
