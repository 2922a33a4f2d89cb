"""Tests for the support of CDI by container runtimes."""

from __future__ import annotations

import pytest

from nodeagent.base.cdi.support import cdi_support


@pytest.mark.parametrize(
    ("name", "version", "config", "problem"),
    [
        ("containerd", "1.6.20~ds1", "{}", "containerd 1.6.20~ds1 does not support CDI devices"),
        ("containerd", "1.7.1", '{"enableCDI": true}', ""),
        ("containerd", "1.7.1", '{"enableCDI": false}', "CDI is disabled in the configuration of containerd 1.7.1"),
        ("containerd", "1.7.24", '{"enableCDI": false}', "CDI is disabled in the configuration of containerd 1.7.24"),
        ("containerd", "1.7.24", '{"enableCDI": true}', ""),
        ("containerd", "v2.0.5", "{}", ""),
        ("cri-o", "1.22.5", "{}", "cri-o 1.22.5 does not support CDI devices"),
        ("cri-o", "1.27.3", "{}", ""),
        ("cri-o", "1.28.0", "not json", ""),
        ("nodeagent-embedded", "0.1.0", "[]", ""),
    ],
)
def test_problem_depends_on_release_and_configuration(name: str, version: str, config: str, problem: str) -> None:
    support = cdi_support(name, version, {"config": config})

    assert support.problem == problem
    assert bool(support.remedy) is bool(problem)


def test_directories_are_those_of_the_runtime() -> None:
    support = cdi_support("containerd", "1.7.24", {"config": '{"enableCDI": true, "cdiSpecDirs": ["/opt/cdi"]}'})

    assert support.directories == ("/opt/cdi",)
    assert cdi_support("other", "1.0", {}).directories == ("/etc/cdi", "/var/run/cdi")


@pytest.mark.parametrize(
    ("name", "version", "reads_field"),
    [
        ("containerd", "1.7.1", False),
        ("containerd", "1.7.2", True),
        ("cri-o", "1.27.3", False),
        ("cri-o", "1.28.0", True),
        ("other", "0.1", True),
        ("containerd", "unknown", True),
    ],
)
def test_older_runtimes_read_an_annotation(name: str, version: str, reads_field: bool) -> None:
    assert cdi_support(name, version, {}).reads_field is reads_field
