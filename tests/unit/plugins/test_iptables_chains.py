"""Tests for the iptables chains."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock, load_plugin, make_config, make_context
from nodeagent_plugins import iptables_chains
from nodeagent_plugins.iptables_chains import CHECK_SECONDS, ChainKeeper, Chains, Iptables

CHAINS = Chains.of(Identity())


class FakeIptables(Iptables):
    """A firewall in memory."""

    def __init__(self) -> None:
        super().__init__(["iptables"])
        self.rules: dict[tuple[str, str], list[tuple[str, ...]]] = {("filter", "INPUT"): [], ("filter", "OUTPUT"): []}
        self.broken = False
        self.calls = 0

    async def _run(self, *arguments: str) -> tuple[int, str]:
        self.calls += 1
        _, table, action, chain, *rule = arguments
        if self.broken:
            return 3, "Table does not exist"
        known = self.rules.get((table, chain))
        match action:
            case "-S":
                return int(known is None), ""
            case "-N":
                self.rules[table, chain] = []
            case "-C":
                return int(known is None or tuple(rule) not in known), ""
            case "-I" | "-A":
                assert known is not None
                known.insert(0 if action == "-I" else len(known), tuple(rule))
        return 0, ""


@pytest.fixture
def firewall() -> FakeIptables:
    return FakeIptables()


async def test_chains_are_created_once(firewall: FakeIptables, clock: FakeClock) -> None:
    firewall.rules["filter", "INPUT"].append(("-j", "ELSEWHERE"))
    keeper = ChainKeeper(firewall, CHAINS, clock, ipv4=True)
    await keeper.check()
    made = {position: list(rules) for position, rules in firewall.rules.items()}

    await keeper.check()

    assert firewall.rules == made
    assert made["filter", "INPUT"] == [("-j", "KUBE-FIREWALL"), ("-j", "ELSEWHERE")]
    assert made["filter", "KUBE-FIREWALL"] == [iptables_chains.BLOCK_LOCALNET]
    assert made["mangle", "KUBE-IPTABLES-HINT"] == []
    assert {table for table, chain in made if chain == "KUBE-KUBELET-CANARY"} == {"mangle", "nat", "filter"}


async def test_ipv6_has_the_hint_chain_but_no_rule(firewall: FakeIptables, clock: FakeClock) -> None:
    await ChainKeeper(firewall, CHAINS, clock, ipv4=False).check()

    assert ("mangle", "KUBE-IPTABLES-HINT") in firewall.rules
    assert ("filter", "KUBE-FIREWALL") not in firewall.rules


async def test_chains_are_restored_after_a_reload(firewall: FakeIptables, clock: FakeClock) -> None:
    loop = asyncio.create_task(ChainKeeper(firewall, CHAINS, clock, ipv4=True).run())
    await clock.advance(0)
    made = dict(firewall.rules)
    firewall.rules = {("filter", "INPUT"): [], ("filter", "OUTPUT"): []}

    await clock.advance(CHECK_SECONDS)

    assert firewall.rules == made
    calls = firewall.calls
    await clock.advance(CHECK_SECONDS)
    assert firewall.calls == calls + 3  # One per canary.
    loop.cancel()


async def test_failure_is_logged_once_and_retried(
    firewall: FakeIptables, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    firewall.broken = True
    with caplog.at_level(logging.WARNING):
        loop = asyncio.create_task(ChainKeeper(firewall, CHAINS, clock, ipv4=True).run())
        await clock.advance(3 * CHECK_SECONDS)
    assert [record.err for record in caplog.records] == [  # type: ignore[attr-defined]
        "iptables -t mangle -N KUBE-IPTABLES-HINT: exit code 3: Table does not exist"
    ]

    firewall.broken = False
    await clock.advance(CHECK_SECONDS)

    assert ("nat", CHAINS.canary) in firewall.rules
    loop.cancel()


async def test_missing_command_is_a_failure(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await ChainKeeper(Iptables(["/no/such/program"]), CHAINS, clock, ipv4=True).check()

    assert [record.err for record in caplog.records] == ["/no/such/program: No such file or directory"]  # type: ignore[attr-defined]


@pytest.mark.row("config.makeIPTablesUtilChains")
def test_chains_are_disabled_by_default(tmp_path: Path) -> None:
    def loops(*, enabled: bool) -> list[str]:
        context = make_context(tmp_path, config=make_config(make_iptables_util_chains=enabled))
        manager = load_plugin(iptables_chains, name="iptables_chains", context=context)
        results = manager.provide_all("nodeagent_provide_background_loops")
        return [loop.name for result in results for loop in result.value]

    assert loops(enabled=True) == ["iptables chains", "ip6tables chains"]
    assert loops(enabled=False) == []


def test_chain_names_depend_on_the_product() -> None:
    chains = Chains.of(Identity(hint_chain="NODE-HINT", component="a-rather-long-component-name"))

    assert chains == Chains("NODE-HINT", "NODE-FIREWALL", "NODE-A-RATHER-LONG-COMPONENT")
