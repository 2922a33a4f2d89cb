"""Tests for the cached listing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodeagent_plugins.cri.listing import Listing


def entry(name: str, state: int = 1) -> SimpleNamespace:
    return SimpleNamespace(id=name, state=state)


@pytest.fixture
def read() -> list[str]:
    """Return the IDs of the converted entries."""
    return []


@pytest.fixture
def listing(read) -> Listing[tuple[str, int]]:
    def reader(found: SimpleNamespace) -> tuple[str, int]:
        read.append(found.id)
        return (found.id, found.state)

    return Listing(reader)


def test_unchanged_listing_in_another_order_is_the_same_object(listing, read):
    first = listing.take([entry("a"), entry("b")])
    read.clear()

    assert listing.take([entry("b"), entry("a")]) is first
    assert read == []


def test_only_changed_entries_are_converted_again(listing, read):
    listing.take([entry("a"), entry("b")])
    read.clear()

    assert listing.take([entry("a"), entry("b", 2), entry("c")]) == (("a", 1), ("b", 2), ("c", 1))
    assert read == ["b", "c"]


def test_removed_entry_disappears_from_the_listing(listing):
    first = listing.take([entry("a"), entry("b")])

    assert listing.take([entry("b")]) == (("b", 1),)
    assert listing.take([entry("a"), entry("b")]) is not first


def test_replaced_entry_is_a_change(listing):
    listing.take([entry("a")])

    assert listing.take([entry("b")]) == (("b", 1),)


def test_empty_listing_is_the_same_object(listing):
    assert listing.take([]) is listing.take([])


def test_partial_listing_uses_and_preserves_the_cache(listing, read):
    first = listing.take([entry("a"), entry("b")])
    read.clear()

    assert listing.lookup([entry("b"), entry("c")]) == (("b", 1), ("c", 1))
    assert read == ["c"]
    assert listing.take([entry("a"), entry("b")]) is first
