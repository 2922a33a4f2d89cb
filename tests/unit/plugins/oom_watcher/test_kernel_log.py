"""Tests for OOM kills in the kernel log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodeagent_plugins.oom_watcher.kernel_log import KernelLog, OomKill, OomParser, record_text
from tests.descriptors import open_descriptors

NEW = (
    "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "Memory cgroup stats for /kubepods/poda/c1:",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/poda,"
    "task_memcg=/kubepods/poda/c1,task=my, odd) task,pid=6202,uid=0",
    "Memory cgroup out of memory: Killed process 6202 (my, odd) task) total-vm:82104kB, anon-rss:16256kB",
)
WHOLE_GROUP = (
    *NEW,
    "Tasks in /kubepods/poda/c1 are going to be killed due to memory.oom.group set",
    "Memory cgroup out of memory: Killed process 6202 (my, odd) task) total-vm:82104kB, anon-rss:16256kB",
    "Memory cgroup out of memory: Killed process 6203 (sh) total-vm:82104kB, anon-rss:16256kB",
)
MACHINE = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,"
    "task=tail,pid=77,uid=1000",
    "Out of memory: Killed process 77 (tail) total-vm:1kB",
)
OLD = (
    "Task in /kubepods/poda/c1 killed as a result of limit of /kubepods/poda",
    "Memory cgroup out of memory: Kill process 8 (stress) score 1000 or sacrifice child",
    "Killed process 8 (stress) total-vm:1kB, anon-rss:1kB",
)
OLD_MACHINE = (
    "Out of memory: Kill process 9 (stress) score 900 or sacrifice child",
    "Killed process 9, UID 1000, (stress) total-vm:1kB",
)


@pytest.mark.parametrize(
    ("records", "kill"),
    [
        (NEW, OomKill("my, odd) task", 6202, "/kubepods/poda/c1", True)),
        (WHOLE_GROUP, OomKill("my, odd) task", 6202, "/kubepods/poda/c1", True)),
        (WHOLE_GROUP[-1:], None),
        (MACHINE, OomKill("tail", 77, "/", False)),
        (OLD, OomKill("stress", 8, "/kubepods/poda/c1", True)),
        (OLD_MACHINE, OomKill("stress", 9, "/", False)),
        (("veth1: entered promiscuous mode",), None),
    ],
    ids=["limit", "whole group", "rest of a group", "machine", "old limit", "old machine", "something else"],
)
def test_each_kill_is_found_once(records: tuple[str, ...], kill: OomKill | None) -> None:
    parser = OomParser()

    found = [parser.feed(record) for record in records]

    assert [one for one in found if one is not None] == ([kill] if kill else [])


def test_records_of_user_space_are_ignored() -> None:
    assert record_text(b"6,79497,13883795173,-;oom-kill:x\n SUBSYSTEM=y\n") == "oom-kill:x"
    assert record_text(b"30,79497,13883795173,-;oom-kill:x\n") == ""  # facility 3: a daemon wrote it
    assert record_text(b"torn") == ""


async def test_unreadable_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await KernelLog(tmp_path / "kmsg").follow(lambda _kill: None)


async def test_log_without_polling_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_text("")
    before = open_descriptors()

    with pytest.raises(OSError, match="not permitted"):
        async with asyncio.timeout(5):
            await KernelLog(tmp_path / "kmsg").follow(lambda _kill: None)

    assert open_descriptors() <= before
