"""Tests for the syntax of the names of kernel parameters."""

from __future__ import annotations

import pytest

from nodeagent.base.sysctls import normalize_sysctl, sysctl_name_problems


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("net.ipv4.conf.eth0/1.mtu", "net.ipv4.conf.eth0/1.mtu"),
        ("net/ipv4/conf/eth0.1/mtu", "net.ipv4.conf.eth0/1.mtu"),
        ("kernel", "kernel"),
    ],
)
def test_first_separator_decides_the_notation(name: str, normal: str) -> None:
    assert normalize_sysctl(name) == normal


@pytest.mark.parametrize(
    ("name", "valid"),
    [("net.core.somaxconn", True), ("net..core", False), ("Net.core", False), ("a" * 253, True), ("a" * 254, False)],
)
def test_names_by_syntax(name: str, valid: bool) -> None:
    assert (not sysctl_name_problems(name)) is valid
