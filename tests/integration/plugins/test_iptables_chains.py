"""Tests for iptables chains in the kernel, in a separate network namespace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.base.identity import Identity
from nodeagent_plugins.iptables_chains import ChainKeeper, Chains, Iptables

Shell = Callable[..., str]
CHAINS = Chains.of(Identity())


@pytest.fixture
def shell() -> Iterator[Shell]:
    """Yield a function that runs a command in a new network namespace and returns its output."""
    name = f"nodeagent-chains-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)

    def run(*command: str) -> str:
        inside = ["ip", "netns", "exec", name, *command]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout

    run.name = name  # type: ignore[attr-defined]
    yield run
    subprocess.run(["ip", "netns", "delete", name], check=True)


def keeper(shell: Shell, executable: str) -> ChainKeeper:
    inside = ["ip", "netns", "exec", shell.name, executable]  # type: ignore[attr-defined]
    return ChainKeeper(Iptables(inside), CHAINS, SystemClock(), ipv4=executable == "iptables")


@pytest.mark.row("config.makeIPTablesUtilChains")
async def test_chains_are_created_and_repaired(shell: Shell) -> None:
    shell("iptables", "-A", "INPUT", "-p", "icmp", "-j", "ACCEPT")
    ipv4 = keeper(shell, "iptables")
    await ipv4.check()
    await ipv4.check()

    rules = shell("iptables", "-S").splitlines()
    assert [rule for rule in rules if rule.startswith(("-A INPUT", "-A OUTPUT"))] == [
        "-A INPUT -j KUBE-FIREWALL",
        "-A INPUT -p icmp -j ACCEPT",
        "-A OUTPUT -j KUBE-FIREWALL",
    ]
    [block] = [rule for rule in rules if rule.startswith("-A KUBE-FIREWALL")]
    assert block == (
        "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "
        '"block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'
    )
    mangle = shell("iptables", "-t", "mangle", "-S")
    assert "-N KUBE-IPTABLES-HINT" in mangle
    assert "-N KUBE-KUBELET-CANARY" in mangle

    for table in ("mangle", "nat", "filter"):  # Like the reload of a firewall service.
        shell("iptables", "-t", table, "-F")
        shell("iptables", "-t", table, "-X")
    await ipv4.check()

    assert block in shell("iptables", "-S")
    assert shell("iptables", "-t", "mangle", "-S") == mangle


@pytest.mark.row("config.makeIPTablesUtilChains")
async def test_ipv6_has_only_the_hint_chain(shell: Shell) -> None:
    await keeper(shell, "ip6tables").check()

    assert "-N KUBE-IPTABLES-HINT" in shell("ip6tables", "-t", "mangle", "-S")
    assert "KUBE-FIREWALL" not in shell("ip6tables", "-S")
    assert "-N KUBE-KUBELET-CANARY" in shell("ip6tables", "-t", "nat", "-S")
