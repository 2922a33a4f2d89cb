"""Validation of the DNS settings and host aliases of pods."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, not_supported, required
from apiserver_stub.validation.addresses import parse_address, validate_legacy_address
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.names import search_domain_problems, subdomain_problems
from nodeagent.base.release import Release

_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SERVERS_LIMIT, _SEARCHES_LIMIT, _SEARCH_LIST_LIMIT = 3, 32, 2048
_INDEXED_ALIASES = Release(1, 34)
"""First release whose errors contain the index of a host alias."""
_ADDRESS_RULE = "must be valid IP address"


def validate_dns(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the DNS policy and configuration of a pod spec."""
    policy = spec.get("dnsPolicy")
    path = f"{field}.dnsPolicy"
    causes = []
    if not policy:
        causes.append(required(path))
    elif policy not in _POLICIES:
        causes.append(not_supported(path, policy, _POLICIES))
    config = spec.get("dnsConfig")
    if config is None and policy != "None":
        return causes
    return causes + _validate_config(
        config,
        f"{field}.dnsConfig",
        needs_server=policy == "None",
        any_search="RelaxedDNSSearchValidation" in options.features,
        is_strict="StrictIPCIDRValidation" in options.features,
    )


def validate_host_aliases(aliases: Sequence[Object], field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the host aliases of a pod."""
    causes = []
    is_strict = "StrictIPCIDRValidation" in options.features
    for index, alias in enumerate(aliases):
        address = alias.get("ip") or ""
        if options.release >= _INDEXED_ALIASES:
            causes += validate_legacy_address(address, f"{field}[{index}].ip", is_strict=is_strict)
        elif parse_address(address) is None:
            causes.append(invalid_value(f"{field}.ip", address, _ADDRESS_RULE))
        for position, name in enumerate(alias.get("hostnames") or ()):
            path = f"{field}[{index}].hostnames[{position}]"
            if options.release < _INDEXED_ALIASES:
                path = f"{field}.hostnames"
            causes += invalid_each(path, name, subdomain_problems(name))
    return causes


def _validate_config(
    config: Object | None, field: str, *, needs_server: bool, any_search: bool, is_strict: bool
) -> list[Cause]:
    if config is None:
        return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if needs_server and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{field}.nameservers", detail)]
    causes = []
    if len(servers) > _SERVERS_LIMIT:
        detail = f"must not have more than {_SERVERS_LIMIT} nameservers"
        causes.append(invalid_value(f"{field}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        path = f"{field}.nameservers[{index}]"
        causes += validate_legacy_address(server, path, is_strict=is_strict, rule=_ADDRESS_RULE)
    if len(searches) > _SEARCHES_LIMIT:
        detail = f"must not have more than {_SEARCHES_LIMIT} search paths"
        causes.append(invalid_value(f"{field}.searches", searches, detail))
    if len(" ".join(searches).encode()) > _SEARCH_LIST_LIMIT:
        detail = f"must not have more than {_SEARCH_LIST_LIMIT} characters (including spaces) in the search list"
        causes.append(invalid_value(f"{field}.searches", searches, detail))
    for index, search in enumerate(searches):
        if any_search and search == ".":
            continue
        name = search.removesuffix(".")
        problems = search_domain_problems(name) if any_search else subdomain_problems(name)
        causes += invalid_each(f"{field}.searches[{index}]", name, problems)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{field}.options[{index}]", "must not be empty"))
    return causes
