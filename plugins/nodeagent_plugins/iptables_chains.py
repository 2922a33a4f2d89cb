"""iptables chains that other components rely on, restored after a firewall reload.

An empty hint chain shows which iptables variant the node uses. For IPv4 a rule drops external packets to loopback
addresses, which ``route_localnet`` would accept; service proxies create the same rule. A canary chain per table detects
a reload of the firewall, after which all chains are restored.

spec: config.makeIPTablesUtilChains; config.iptablesMasqueradeBit and config.iptablesDropBit have no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.base.aio import Clock
from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ConfigContext
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
CANARY_TABLES = ("mangle", "nat", "filter")
BLOCK_LOCALNET = (
    *("-m", "comment", "--comment", "block incoming localnet connections"),
    *("--dst", "127.0.0.0/8", "!", "--src", "127.0.0.0/8"),
    *("-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT"),
    *("-j", "DROP"),
)
_CHAIN_LENGTH = 28
_LOCK_SECONDS = 5
_CALL_SECONDS = 30.0
_STDERR_LENGTH = 300


class IptablesError(NodeAgentError):
    """The command is missing, timed out or failed."""

    reason = "IptablesFailed"
    transient = True


class Chains(Struct, frozen=True):
    """Names of the chains."""

    hint: str
    firewall: str
    canary: str

    @classmethod
    def of(cls, names: identity.Identity) -> Chains:
        """Return the names for the product; all have the prefix of the hint chain."""
        family = names.hint_chain.partition("-")[0]
        canary = f"{family}-{names.component.upper()}-CANARY"[:_CHAIN_LENGTH]
        return cls(names.hint_chain, f"{family}-FIREWALL", canary)


class Iptables:
    """iptables of one address family.

    :param command: the executable and its leading arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)

    @property
    def executable(self) -> str:
        return self._command[-1]

    async def has_chain(self, table: str, chain: str) -> bool:
        return (await self._run("-t", table, "-S", chain))[0] == 0

    async def ensure_chain(self, table: str, chain: str) -> None:
        """Create *chain* unless it exists; existing rules are not changed.

        :raises IptablesError: the command failed.
        """
        if not await self.has_chain(table, chain):
            await self._must("-t", table, "-N", chain)

    async def ensure_rule(self, table: str, chain: str, *rule: str, first: bool = False) -> None:
        """Add *rule* at the end or the start of *chain* unless the chain contains it.

        :raises IptablesError: the command failed.
        """
        if (await self._run("-t", table, "-C", chain, *rule))[0] != 0:
            await self._must("-t", table, "-I" if first else "-A", chain, *rule)

    async def _must(self, *arguments: str) -> None:
        code, output = await self._run(*arguments)
        if code != 0:
            raise IptablesError(f"{self.executable} {' '.join(arguments)}: exit code {code}: {output}")

    async def _run(self, *arguments: str) -> tuple[int, str]:
        """Return exit code and error output."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *("-w", str(_LOCK_SECONDS)),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise IptablesError(f"{self.executable}: {error.strerror}") from error
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                _, errors = await process.communicate()
        except TimeoutError as error:
            raise IptablesError(
                f"{self.executable} {' '.join(arguments)}: timed out after {_CALL_SECONDS:g} s"
            ) from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        text = errors.decode(errors="replace").strip()[:_STDERR_LENGTH]
        return process.returncode or 0, text


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext, plugins: PluginHost) -> None:
    if config.make_iptables_util_chains:
        chains = Chains.of(identity.current())
        keepers = [
            ChainKeeper(Iptables(["iptables"]), chains, context.clock, ipv4=True),
            ChainKeeper(Iptables(["ip6tables"]), chains, context.clock, ipv4=False),
        ]
        plugins.register(IptablesChains(keepers), name="iptables_chains.keepers")


class IptablesChains:
    """Provides a background loop per address family."""

    def __init__(self, keepers: Sequence[ChainKeeper]) -> None:
        self._keepers = keepers

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return self._keepers


class ChainKeeper:
    """Creates the chains of one address family and restores missing ones; failures are logged."""

    def __init__(self, iptables: Iptables, chains: Chains, clock: Clock, *, ipv4: bool) -> None:
        self.name = f"{iptables.executable} chains"
        self._iptables, self._chains, self._clock, self._ipv4 = iptables, chains, clock, ipv4
        self._problem = ""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Create all chains if a canary is missing."""
        try:
            if await self._complete():
                return
            await self._make()
        except IptablesError as error:
            if str(error) != self._problem:
                _log.warning(
                    "Failed to initialize iptables rules; some functionality may be missing.",
                    extra={"protocol": self._iptables.executable, "err": str(error)},
                )
            self._problem = str(error)
        else:
            self._problem = ""
            _log.info("Initialized iptables rules.", extra={"protocol": self._iptables.executable})

    async def _complete(self) -> bool:
        for table in CANARY_TABLES:
            if not await self._iptables.has_chain(table, self._chains.canary):
                return False
        return True

    async def _make(self) -> None:
        iptables, chains = self._iptables, self._chains
        await iptables.ensure_chain("mangle", chains.hint)
        if self._ipv4:  # The kernel drops such packets for IPv6.
            await iptables.ensure_chain("filter", chains.firewall)
            for hook in ("OUTPUT", "INPUT"):
                await iptables.ensure_rule("filter", hook, "-j", chains.firewall, first=True)
            await iptables.ensure_rule("filter", chains.firewall, *BLOCK_LOCALNET)
        for table in CANARY_TABLES:  # Last, so that an interrupted setup is repeated.
            await iptables.ensure_chain(table, chains.canary)
