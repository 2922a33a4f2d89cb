"""Tests for the CDI check of ``nodeagent doctor``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.cdi.catalog import read_catalog
from nodeagent.base.cdi.support import CdiSupport
from nodeagent.contracts.checks import CheckInconclusive, Severity
from nodeagent.contracts.runtime import RuntimeVersion
from nodeagent.errors import RuntimeUnavailable
from nodeagent.testing import FakeRuntime, make_context
from nodeagent_plugins.node_checks import cdi

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/gpu",
    "devices": [{"name": "x", "containerEdits": {"env": ["A=1"]}}],
}
IGNORED = CdiSupport("containerd 1.6.20 does not support CDI devices", "upgrade to containerd 1.7.2 or later")


def write(directory: Path, *names: str, **fields: Any) -> None:
    for name in names:
        (directory / f"{name}.json").write_text(json.dumps(SPEC | fields))


@pytest.mark.parametrize("support", [CdiSupport(), IGNORED])
def test_node_without_specs_has_no_findings(tmp_path: Path, support: CdiSupport) -> None:
    assert cdi.check_specs(support, read_catalog([str(tmp_path)])) == []


def test_valid_specs_have_no_findings(tmp_path: Path) -> None:
    write(tmp_path, "a")

    assert cdi.check_specs(CdiSupport(), read_catalog([str(tmp_path)])) == []


def test_conflicting_and_invalid_specs_are_problems(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    write(tmp_path, "c", kind="gpu")

    found = cdi.check_specs(CdiSupport(), read_catalog([str(tmp_path)]))

    assert {finding.severity for finding in found} == {Severity.PROBLEM}
    texts = sorted(finding.text for finding in found)
    assert texts[0].startswith("conflicting definitions of CDI device example.com/gpu=x in ")
    assert texts[1].startswith(f'invalid CDI spec {tmp_path}/c.json: kind: "gpu": must have the form vendor/class')


def test_runtime_that_ignores_specs_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a")

    (finding,) = cdi.check_specs(IGNORED, read_catalog([str(tmp_path)]))

    assert finding.severity is Severity.WARNING
    assert finding.text == f"the CDI specs in {tmp_path} have no effect: {IGNORED.problem}"
    assert finding.remedy == IGNORED.remedy


class Runtime(FakeRuntime):
    """A runtime with CDI specs in one directory."""

    directory = ""
    away = False

    async def version(self) -> RuntimeVersion:
        if self.away:
            raise RuntimeUnavailable("connection refused")
        return RuntimeVersion("containerd", "1.7.24", "v1")

    async def info(self) -> dict[str, str]:
        return {"config": json.dumps({"enableCDI": True, "cdiSpecDirs": [self.directory]})}


async def test_specs_are_those_in_the_directories_of_the_runtime(tmp_path: Path) -> None:
    runtime = Runtime()
    runtime.directory = str(tmp_path)
    write(tmp_path, "a", "b")
    (check,) = cdi.checks(make_context(tmp_path, runtime=runtime))

    assert [finding.severity for finding in await check.run()] == [Severity.PROBLEM]

    runtime.away = True
    with pytest.raises(CheckInconclusive):
        await check.run()
