"""Tests for kernel parameters."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from nodeagent.errors import ConfigError
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin
from nodeagent_plugins import kernel_tunables
from nodeagent_plugins.kernel_tunables import REQUIRED, KernelTunables, check_parameters, read_other


@pytest.fixture
def sysctls(tmp_path: Path) -> Path:
    """A kernel with the required parameters."""
    for name, value in REQUIRED.items():
        file = tmp_path.joinpath("sys", *name.split("."))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return tmp_path / "sys"


def test_required_parameters() -> None:
    assert REQUIRED == {
        "vm.overcommit_memory": 1,
        "vm.panic_on_oom": 0,
        "kernel.panic": 10,
        "kernel.panic_on_oops": 1,
        "kernel.keys.root_maxkeys": 1000000,
        "kernel.keys.root_maxbytes": 25000000,
    }


@pytest.mark.row("config.protectKernelDefaults")
def test_every_different_parameter_fails_the_start(
    tmp_path: Path, sysctls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tunables, "SYSCTLS", sysctls)
    context = make_context(tmp_path, config=make_config(protect_kernel_defaults=True))
    load_plugin(kernel_tunables, context=context)  # all is well
    (sysctls / "vm/overcommit_memory").write_text("0\n")
    (sysctls / "kernel/keys/root_maxkeys").write_text("200\n")
    (sysctls / "kernel/panic").unlink()

    with pytest.raises(ConfigError) as failed:
        load_plugin(kernel_tunables, context=context)

    assert [str(problem) for problem in failed.value.problems] == [
        "protectKernelDefaults: vm.overcommit_memory: 0 must be 1 before the agent starts",
        "protectKernelDefaults: kernel.panic: 'No such file or directory' must be 10 before the agent starts",
        "protectKernelDefaults: kernel.keys.root_maxkeys: 200 must be 1000000 before the agent starts",
    ]
    assert (sysctls / "vm/overcommit_memory").read_text() == "0\n"


@pytest.mark.row("config.protectKernelDefaults")
def test_parameters_are_set_without_protection_and_failures_logged(
    tmp_path: Path, sysctls: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_tunables, "SYSCTLS", sysctls)
    manager = load_plugin(kernel_tunables, context=make_context(tmp_path, config=make_config()))
    for name in ("vm/overcommit_memory", "kernel/panic_on_oops"):
        (sysctls / name).write_text("7\n")
    (sysctls / "kernel/panic").unlink()
    (sysctls / "kernel/panic").mkdir()  # cannot be read nor written

    [setter] = [result.value[0] for result in manager.provide_all("nodeagent_provide_background_loops")]
    with caplog.at_level(logging.WARNING):
        setter.set()

    assert read_other(sysctls) == {"kernel.panic": "Is a directory"}
    assert [record.flag for record in caplog.records] == ["kernel.panic"]  # type: ignore[attr-defined]


def test_equal_parameters_are_not_written(sysctls: Path) -> None:
    before = (sysctls / "kernel/panic").stat().st_mtime_ns

    KernelTunables(sysctls).set()
    check_parameters(sysctls)

    assert (sysctls / "kernel/panic").stat().st_mtime_ns == before
