"""Tests for huge pages as the kernel lists them."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base.hugepages import read_huge_pages

MI = 1 << 20


def test_reserved_bytes_are_sorted_by_page_size(tmp_path: Path) -> None:
    for name, pages in (("hugepages-1048576kB", "1"), ("hugepages-2048kB", "64\n"), ("hugepages-64kB", "none")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nr_hugepages").write_text(pages)
    (tmp_path / "hugepages-32kB").mkdir()
    (tmp_path / "other").mkdir()

    found = read_huge_pages(tmp_path)

    assert list(found.items()) == [(32 << 10, 0), (64 << 10, 0), (2 * MI, 128 * MI), (1024 * MI, 1024 * MI)]


def test_missing_directory_has_no_huge_pages(tmp_path: Path) -> None:
    assert read_huge_pages(tmp_path / "none") == {}
