"""Tests for files of the kernel with simulated content."""

import io
import os
from pathlib import Path

import pytest

from nodeagent.simulation.kernel_files import KernelFiles


@pytest.fixture
def replaced(monkeypatch):
    for owner, name, value in KernelFiles({"/proc/simulated": lambda: "content\n"}).replacements():
        monkeypatch.setattr(owner, name, value)


@pytest.mark.usefixtures("replaced")
def test_simulated_file_is_read_as_text_bytes_or_descriptor():
    assert Path("/proc/simulated").read_text() == "content\n"
    assert Path("/proc/simulated").read_bytes() == b"content\n"
    descriptor = os.open("/proc/simulated", os.O_RDONLY)
    assert os.read(descriptor, 100) == b"content\n"
    with io.open(descriptor, "rb") as file:  # noqa: UP020  The replaced function.
        assert file.read() == b""


@pytest.mark.usefixtures("replaced")
def test_other_files_are_those_of_the_host(tmp_path):
    file = tmp_path / "file"
    file.write_text("other")
    assert file.read_text() == "other"
    descriptor = os.open(file, os.O_RDONLY)
    assert os.read(descriptor, 100) == b"other"
    os.close(descriptor)
