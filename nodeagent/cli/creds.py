"""``nodeagent creds test IMAGE``: run the matching credential providers and print their requests and responses.

Exit codes: 0 all matching providers succeeded, 1 one failed or none matches, or the pod cannot be read, 2 usage error
or invalid configuration, 3 the API server cannot be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nodeagent.base import identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.logging.values import masked
from nodeagent.base.release import NEWEST, Release
from nodeagent.base.secret import MASK
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, printable
from nodeagent.config.credentials import load_credential_providers
from nodeagent.config.features import build_gates
from nodeagent.config.flags import FlagParser
from nodeagent.contracts.api import PODS
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ApiContext
from nodeagent.contracts.images import CredentialLookupResult, DiagnosableCredentialProvider
from nodeagent.contracts.runtime import Credentials
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.model.image_name import parse_image_name
from nodeagent.model.pod import Pod
from nodeagent.plugin_context import new_context
from nodeagent.pluginmanager import PluginManager

_SHORTEST_SECRET = 4
_SECRET_PAIR = re.compile(r"""("?(?:password|secret|token)"?\s*[:=]\s*)("[^"]*"?|'[^']*'?|[^\s,}]+)""", re.IGNORECASE)


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    creds = commands.add_parser("creds", help="test the credential providers")
    actions = creds.add_subparsers(required=True, metavar="ACTION", parser_class=FlagParser)
    test = actions.add_parser("test", help="run every provider that matches an image, as a pull would")
    test.add_argument("image", metavar="IMAGE")
    for name, text in (
        ("config", "configuration file of the providers"),
        ("bin-dir", "directory of their executables"),
    ):
        test.add_argument(f"--image-credential-provider-{name}", required=True, metavar="PATH", help=text)
    test.add_argument(
        "--pod", type=_pod_name, metavar="NAMESPACE/NAME", help="pod whose service account the providers receive"
    )
    test.add_argument("--kubeconfig", default="", metavar="PATH", help="kubeconfig of the node, required by --pod")
    test.add_argument(
        "--compatibility-version", type=_release, default=NEWEST, metavar="RELEASE", help="release of the agent"
    )
    test.add_argument("--api-domain", default="", help="domain part of API groups, as configured for the agent")
    test.add_argument("--disable-plugin", action="append", default=[], metavar="NAME")
    test.add_argument("-o", "--output", choices=("text", "json"), default="text")
    test.set_defaults(handler=run_test)


def run_test(arguments: argparse.Namespace) -> int:
    """Run the providers, print a report and return the exit code.

    :raises ConfigError: the file, the directory or an executable is invalid; contains all problems.
    :raises PluginError: a plugin cannot be loaded, or failed.
    """
    if arguments.api_domain:
        identity.configure(dataclasses.replace(identity.current(), api_domain=arguments.api_domain))
    if bool(arguments.pod) != bool(arguments.kubeconfig):
        print("nodeagent: --pod and --kubeconfig require each other", file=sys.stderr)
        return ExitCode.CONFIGURATION
    try:
        repository = parse_image_name(arguments.image).repository
    except ValueError as error:
        print(f"nodeagent: image name {arguments.image!r} {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    gates = build_gates({}, arguments.compatibility_version)
    for warning in load_credential_providers(arguments.image_credential_provider_config, gates).warnings:
        print(f"warning: {warning}", file=sys.stderr)
    logging.getLogger("nodeagent_plugins").addHandler(logging.NullHandler())  # The report contains the failures.
    plugins = PluginManager()
    plugins.load_entry_points(arguments.disable_plugin)
    try:
        results = asyncio.run(_lookup(plugins, arguments, repository))
    except ApiError as error:
        print(f"nodeagent: failed to get pod {'/'.join(arguments.pod)}: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE if isinstance(error, ApiUnavailable) else ExitCode.PROBLEMS
    report = _report(arguments.image, repository, results)
    if arguments.output == "json":
        print_json(report)
    else:
        _print(report)
    matching = [provider for provider in report["providers"] if provider["matches"]]
    succeeded = bool(matching or report["credentials"]) and not any(provider["failure"] for provider in matching)
    return ExitCode.OK if succeeded else ExitCode.PROBLEMS


async def _lookup(
    plugins: PluginManager, arguments: argparse.Namespace, repository: str
) -> list[CredentialLookupResult]:
    settings = NodeSettings(
        image_credential_provider_config=arguments.image_credential_provider_config,
        image_credential_provider_bin_dir=arguments.image_credential_provider_bin_dir,
    )
    gates = build_gates({}, arguments.compatibility_version)
    async with contextlib.AsyncExitStack() as cleanup, TaskOwner("creds") as tasks:
        context = new_context(NodeAgentConfiguration(), gates, settings, clock=SystemClock(), tasks=tasks)
        api = pod = None
        if arguments.pod:
            api = context.connect_api(Path(arguments.kubeconfig))
            cleanup.push_async_callback(api.close)
            namespace, name = arguments.pod
            pod = await api.get(PODS, name, namespace, into=Pod)
        context = context.stage(ApiContext, api=api, new_api=None)
        results = []
        for provided in plugins.provide_all("nodeagent_provide_credential_providers", context=context):
            for provider in provided.value:
                if isinstance(provider, DiagnosableCredentialProvider):
                    results.append(await provider.lookup(repository, pod))
                else:
                    credentials = await provider.credentials(repository, pod)
                    results.append(CredentialLookupResult(tuple(credentials)))
        return results


def _pod_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not (namespace and name) or "/" in name:
        raise argparse.ArgumentTypeError("must be NAMESPACE/NAME")
    return namespace, name


def _release(text: str) -> Release:
    try:
        return Release.parse(text).bounded()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _report(image: str, repository: str, results: Sequence[CredentialLookupResult]) -> dict[str, Any]:
    """Return the report, with secrets masked."""
    providers = [
        {
            "name": lookup.source,
            "matches": list(lookup.patterns),
            "skipped": lookup.skipped,
            "command": list(lookup.command),
            "request": json.loads(lookup.request) if lookup.request else None,
            "auth": {location: _masked(credentials) for location, credentials in lookup.auth.items()},
            "cached": lookup.caching,
            "seconds": round(lookup.seconds, 3),
            "failure": lookup.failure,
            "stderr": _without_secrets(lookup.detail, results),
        }
        for result in results
        for lookup in result.lookups
    ]
    credentials_in_order = [
        {"provider": credentials.source, **_masked(credentials)}
        for result in results
        for credentials in result.credentials
    ]
    return {"image": image, "repository": repository, "providers": providers, "credentials": credentials_in_order}


def _masked(credentials: Credentials) -> dict[str, str]:
    """Return the user name and a mask; without a password the user name is masked, too, because it may be a token."""
    username = credentials.username if credentials.password else MASK if credentials.username else ""
    return {"username": username, "password": MASK if credentials.password else ""}


def _without_secrets(text: str, results: Sequence[CredentialLookupResult]) -> str:
    for result in results:
        for lookup in result.lookups:
            for credentials in lookup.auth.values():
                if len(credentials.password) >= _SHORTEST_SECRET:
                    text = text.replace(credentials.password, MASK)
    return masked(_SECRET_PAIR.sub(rf"\1{MASK}", text))


def _print(report: Mapping[str, Any]) -> None:
    print(f"{report['image']}: repository {report['repository']}")
    for provider in report["providers"]:
        _print_provider(provider)
    if report["credentials"]:
        print("\nA pull tries these credentials, in this order:")
        for number, credentials in enumerate(report["credentials"], 1):
            print(f"  {number}. {_user_and_password(credentials)} from {credentials['provider']}")
    else:
        print("\nPulls are anonymous, unless the pod has pull secrets.")


def _print_provider(provider: Mapping[str, Any]) -> None:
    if provider["skipped"]:
        print(f"\n{provider['name']}: skipped, because {provider['skipped']}")
        return
    if not provider["matches"]:
        print(f"\n{provider['name']}: no pattern matches")
        return
    print(f"\n{provider['name']}: matches {', '.join(provider['matches'])}")
    print(f"  command   {shlex.join(provider['command'])}")
    print(f"  request   {json.dumps(provider['request'])}")
    if provider["failure"]:
        print(f"  failure   {provider['failure']}")
        for line in provider["stderr"].splitlines():
            print(f"  stderr    {printable(line)}")
        return
    print(f"  response  after {provider['seconds']:g} s; cached: {provider['cached']}")
    for location, credentials in provider["auth"].items():
        print(f"  auth      {printable(location)}: {_user_and_password(credentials)}")
    if not provider["auth"]:
        print("  auth      none: anonymous pull")


def _user_and_password(credentials: Mapping[str, str]) -> str:
    return f"user {printable(credentials['username'])!r}, password {credentials['password'] or 'empty'}"
