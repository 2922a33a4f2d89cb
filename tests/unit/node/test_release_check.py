"""Tests for the query of the API server's release after a start without a response."""

from __future__ import annotations

import asyncio
import logging

import pytest

from nodeagent.base.release import Release, ReleaseOrigin, SelectedRelease
from nodeagent.config.release import select_release
from nodeagent.contracts.settings import NodeSettings
from nodeagent.node.release_check import ReleaseCheck


class Server:
    def __init__(self, *versions):
        self.versions = list(versions)

    def __call__(self):
        return self.versions.pop(0)


@pytest.fixture
def check(tmp_path, clock):
    async def run(origin, server, minor=29):
        restarts = []
        selected = SelectedRelease(Release(1, minor), origin)
        check = ReleaseCheck(selected, tmp_path, clock, server, lambda: restarts.append(True))
        task = asyncio.create_task(check.run())
        for _ in range(3):
            await clock.advance(10)
        await task
        return bool(restarts), select_release(NodeSettings(root_dir=str(tmp_path), kubeconfig="/k"))

    return run


async def test_assumed_release_is_replaced_by_a_restart(check):
    restarted, stored = await check(ReleaseOrigin.ASSUMED, Server("", "v1.35.1"))

    assert restarted
    assert (str(stored.release), stored.server_version) == ("1.35", "v1.35.1")


async def test_assumed_release_that_was_right_needs_no_restart(check):
    restarted, stored = await check(ReleaseOrigin.ASSUMED, Server("v1.29.4"))

    assert not restarted
    assert stored.server_version == "v1.29.4"


async def test_remembered_release_is_kept_until_the_next_start(check, caplog):
    with caplog.at_level(logging.WARNING):
        restarted, stored = await check(ReleaseOrigin.REMEMBERED, Server("v1.35.1"), 34)

    assert not restarted
    assert str(stored.release) == "1.35"
    assert "API server has another release" in caplog.text


@pytest.mark.parametrize("origin", [ReleaseOrigin.FLAG, ReleaseOrigin.API_SERVER, ReleaseOrigin.STANDALONE])
async def test_other_releases_are_not_checked(check, origin):
    restarted, stored = await check(origin, Server())

    assert not restarted
    assert stored.assumed
