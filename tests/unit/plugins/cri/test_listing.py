"""A listing is the same object until something changed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodeagent_plugins.cri.listing import Listing


def entry(name: str, state: int = 1) -> SimpleNamespace:
    return SimpleNamespace(id=name, state=state)


@pytest.fixture
def read() -> list[str]:
    """The ids of the entries that were read."""
    return []


@pytest.fixture
def listing(read) -> Listing[tuple[str, int]]:
    def reader(found: SimpleNamespace) -> tuple[str, int]:
        read.append(found.id)
        return (found.id, found.state)

    return Listing(reader)


def test_an_unchanged_listing_in_another_order_is_the_same_object_and_reads_nothing(listing, read):
    first = listing.take([entry("a"), entry("b")])
    read.clear()

    assert listing.take([entry("b"), entry("a")]) is first
    assert read == []


def test_only_what_changed_is_read_again(listing, read):
    listing.take([entry("a"), entry("b")])
    read.clear()

    assert listing.take([entry("a"), entry("b", 2), entry("c")]) == (("a", 1), ("b", 2), ("c", 1))
    assert read == ["b", "c"]


def test_what_is_gone_is_no_longer_listed(listing):
    first = listing.take([entry("a"), entry("b")])

    assert listing.take([entry("b")]) == (("b", 1),)
    assert listing.take([entry("a"), entry("b")]) is not first


def test_one_replaced_by_another_is_a_change(listing):
    listing.take([entry("a")])

    assert listing.take([entry("b")]) == (("b", 1),)


def test_an_empty_listing_stays_the_same_object(listing):
    assert listing.take([]) is listing.take([])


def test_looking_up_a_part_reuses_what_is_known_and_forgets_nothing(listing, read):
    first = listing.take([entry("a"), entry("b")])
    read.clear()

    assert listing.look_up([entry("b"), entry("c")]) == (("b", 1), ("c", 1))
    assert read == ["c"]
    assert listing.take([entry("a"), entry("b")]) is first
