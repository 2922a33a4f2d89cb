"""Items about files: modes, owners, the unit of the agent, and kube-proxy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from nodeagent.cli.cis.host import excessive_modes, unexpected_owners
from nodeagent.cli.cis.installation import Installation

SECRET, PUBLIC = 0o600, 0o644
_METRICS = "--metrics-bind-address="
_LOCAL = re.compile(r"(127\.\d+\.\d+\.\d+|localhost|\[::1\]|::1)(:\d+)?")
_Check = Callable[[Installation], Iterable[str] | None]


def _units(installation: Installation) -> Sequence[str]:
    return installation.unit.files if installation.unit is not None else ()


def _kubeconfig(installation: Installation) -> Sequence[str]:
    return [installation.settings.kubeconfig] if installation.settings.kubeconfig else ()


def _client_ca(installation: Installation) -> Sequence[str]:
    path = installation.config.authentication.x509.client_ca_file
    return [path] if path else ()


def _modes(names: Callable[[Installation], Sequence[str]], widest: int) -> _Check:
    def check(installation: Installation) -> Iterable[str] | None:
        found = names(installation)
        return excessive_modes(installation.host, found, widest) if found else None

    return check


def _owners(names: Callable[[Installation], Sequence[str]]) -> _Check:
    def check(installation: Installation) -> Iterable[str] | None:
        found = names(installation)
        return unexpected_owners(installation.host, found) if found else None

    return check


unit_modes, unit_owners = _modes(_units, SECRET), _owners(_units)
kubeconfig_modes, kubeconfig_owners = _modes(_kubeconfig, SECRET), _owners(_kubeconfig)
client_ca_modes, client_ca_owners = _modes(_client_ca, PUBLIC), _owners(_client_ca)
proxy_modes, proxy_owners = _modes(Installation.proxy_kubeconfigs, SECRET), _owners(Installation.proxy_kubeconfigs)
configuration_modes = _modes(Installation.configuration_files, SECRET)
configuration_owners = _owners(Installation.configuration_files)


def addresses(installation: Installation) -> Iterable[str] | None:
    """Return whether the unit limits the addresses; not applicable without a unit."""
    unit = installation.unit
    if unit is None:
        return None
    denied, allowed = unit.words("IPAddressDeny"), unit.words("IPAddressAllow")
    if "any" not in denied and not {"0.0.0.0/0", "::/0"} <= set(denied):
        return ["IPAddressDeny=any is not set"]
    wide = {"any", "0.0.0.0/0", "::/0"} & set(allowed)
    return [f"IPAddressAllow={each} allows every address" for each in sorted(wide)]


def proxy_metrics(installation: Installation) -> Iterable[str] | None:
    """Return the metrics addresses of kube-proxy that are not local; not applicable if it does not run."""
    commands = installation.proxy_commands()
    return _public_metrics(installation, commands) if commands else None


def _public_metrics(installation: Installation, commands: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    for process, command in commands:
        for address in _metrics_addresses(installation, process, command):
            if not _LOCAL.fullmatch(address):
                yield f"kube-proxy serves metrics on {address}"


def _metrics_addresses(installation: Installation, process: str, command: Sequence[str]) -> Iterator[str]:
    for word in command:
        if word.startswith(_METRICS):
            yield word.removeprefix(_METRICS)
        elif word.startswith("--config="):
            # The file is in the mount namespace of the process.
            text = installation.host.text(f"{process}/root{word.removeprefix('--config=')}")
            for value in re.findall(r"^metricsBindAddress:\s*(\S+)\s*$", text, re.MULTILINE):
                if address := value.strip("\"'"):
                    yield address
