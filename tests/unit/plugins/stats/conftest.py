"""Fixtures: a host made of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.stats.machine import Machine

V1 = """30 24 0:26 / {root}/cpuacct rw shared:9 - cgroup cgroup rw,cpuacct
31 24 0:27 / {root}/memory rw - cgroup cgroup rw,memory
32 24 0:28 / {root}/unified rw - cgroup2 cgroup2 rw
"""
V2 = "30 24 0:26 / {root} rw - cgroup2 cgroup2 rw\n"
V1_MEMORY = """cache 1
rss 2
inactive_file 3
hierarchical_memory_limit 9223372036854771712
total_cache 4000
total_rss 5000
total_mapped_file 70
total_swap 30
total_pgfault 80
total_pgmajfault 9
total_inactive_file 1000
"""
V2_MEMORY = """anon 5000
file 4000
file_mapped 70
inactive_anon 1
inactive_file 1000
pgfault 80
pgmajfault 9
"""


class FakeMachine:
    """Files in a directory that replace ``/proc`` and ``/sys``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put(
            "proc/meminfo",
            "MemTotal:  1000 kB\nMemFree:  400 kB\nSwapTotal:  20 kB\nSwapFree:  15 kB\n",
        )
        self.put("proc/stat", "cpu  10 1 5 900 50 2 2 0 0 0\ncpu0 1\nbtime 1700000000\n")
        self.put("proc/loadavg", "0.1 0.2 0.3 2/345 999\n")
        self.put("proc/sys/kernel/pid_max", "32768\n")
        self.put("proc/sys/kernel/threads-max", "30000\n")
        self.put("proc/self/cgroup", "4:memory:/agent\n3:cpuacct:/\n0::/agent\n")
        self.interfaces(1, eth0=(7, 8), lo=(1, 1))

    @property
    def machine(self) -> Machine:
        return Machine(self.root)

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def v1(self) -> None:
        self.put("proc/self/mountinfo", V1.format(root="/sys/fs/cgroup"))

    def v2(self) -> None:
        self.put("proc/self/mountinfo", V2.format(root="/sys/fs/cgroup"))

    def cgroup_v1(self, name: str, *, cpu: int, memory: int, limit: int | None = None, pids: str = "") -> None:
        """Add or change a cgroup; *cpu* in nanoseconds."""
        self.put(f"sys/fs/cgroup/cpuacct{name}/cpuacct.usage", f"{cpu}\n")
        memory_at = f"sys/fs/cgroup/memory{name}"
        self.put(f"{memory_at}/memory.usage_in_bytes", f"{memory}\n")
        self.put(f"{memory_at}/memory.limit_in_bytes", f"{limit or 9223372036854771712}\n")
        self.put(f"{memory_at}/memory.stat", V1_MEMORY)
        self.put(f"{memory_at}/cgroup.procs", pids)

    def cgroup_v2(self, name: str, *, cpu: int, memory: int, limit: int | None = None, pids: str = "") -> None:
        """Add or change a cgroup; *cpu* in nanoseconds."""
        at = f"sys/fs/cgroup{name}"
        self.put(f"{at}/cpu.stat", f"usage_usec {cpu // 1000}\nuser_usec 1\n")
        self.put(f"{at}/memory.current", f"{memory}\n")
        self.put(f"{at}/memory.max", f"{limit or 'max'}\n")
        self.put(f"{at}/memory.swap.current", "30\n")
        self.put(f"{at}/memory.swap.max", "50\n")
        self.put(f"{at}/memory.stat", V2_MEMORY)
        self.put(f"{at}/cgroup.procs", pids)

    def interfaces(self, pid: int, **counters: tuple[int, int]) -> None:
        """Set the received and sent bytes of a process' interfaces."""
        lines = [f"  {name}: {rx} 0 2 0 0 0 0 0 {tx} 0 3 0 0 0 0 0" for name, (rx, tx) in counters.items()]
        self.put(f"proc/{pid}/net/dev", "Inter-|\n face |\n" + "\n".join(lines) + "\n")


@pytest.fixture
def fake(tmp_path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine")
