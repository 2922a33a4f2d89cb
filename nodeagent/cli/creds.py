"""``nodeagent creds test IMAGE``: which credential providers match, what they were asked, what they answered.

Exit codes: 0 every provider that matches answered, 1 one failed or none matches, 2 wrong usage or configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import logging
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent.base import identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.logging.values import masked
from nodeagent.base.secret import MASK
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json
from nodeagent.config.credentials import load_credential_providers
from nodeagent.config.features import build_gates
from nodeagent.config.flags import FlagParser
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.images import CredentialLookupResult, DiagnosableCredentialProvider
from nodeagent.contracts.runtime import Credentials
from nodeagent.contracts.settings import NodeSettings
from nodeagent.model.image_name import parse_image_name
from nodeagent.pluginmanager import PluginManager

_SHORTEST_SECRET = 4
_SECRET_PAIR = re.compile(r"""("?(?:password|secret|token)"?\s*[:=]\s*)("[^"]*"?|'[^']*'?|[^\s,}]+)""", re.IGNORECASE)


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    creds = commands.add_parser("creds", help="ask the credential providers")
    actions = creds.add_subparsers(required=True, metavar="ACTION", parser_class=FlagParser)
    test = actions.add_parser("test", help="ask every provider that matches an image, as a pull would")
    test.add_argument("image", metavar="IMAGE")
    for name, what in (("config", "file that lists the providers"), ("bin-dir", "directory of their executables")):
        test.add_argument(f"--image-credential-provider-{name}", required=True, metavar="PATH", help=what)
    test.add_argument("--api-domain", default="", help="domain part of API groups, as the agent has it")
    test.add_argument("--disable-plugin", action="append", default=[], metavar="NAME")
    test.add_argument("-o", "--output", choices=("text", "json"), default="text")
    test.set_defaults(handler=run_test)


def run_test(arguments: argparse.Namespace) -> int:
    """Ask, print what came of it and return the exit code.

    :raises ConfigError: the file, the directory or a program is not acceptable; with every problem.
    :raises PluginError: a plugin cannot be loaded, or failed.
    """
    if arguments.api_domain:
        identity.configure(dataclasses.replace(identity.current(), api_domain=arguments.api_domain))
    try:
        repository = parse_image_name(arguments.image).repository
    except ValueError as error:
        print(f"nodeagent: {arguments.image!r} {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    for warning in load_credential_providers(arguments.image_credential_provider_config).warnings:
        print(f"warning: {warning}", file=sys.stderr)
    logging.getLogger("nodeagent_plugins").addHandler(logging.NullHandler())  # the report tells everything
    plugins = PluginManager()
    plugins.load_entry_points(arguments.disable_plugin)
    answers = asyncio.run(_ask(plugins, arguments, repository))
    report = _report(arguments.image, repository, answers)
    if arguments.output == "json":
        print_json(report)
    else:
        _print(report)
    asked = [provider for provider in report["providers"] if provider["matches"]]
    fine = bool(asked or report["credentials"]) and not any(provider["failure"] for provider in asked)
    return ExitCode.OK if fine else ExitCode.PROBLEMS


async def _ask(plugins: PluginManager, arguments: argparse.Namespace, repository: str) -> list[CredentialLookupResult]:
    settings = NodeSettings(
        image_credential_provider_config=arguments.image_credential_provider_config,
        image_credential_provider_bin_dir=arguments.image_credential_provider_bin_dir,
    )
    async with TaskOwner("creds") as tasks:
        context = AgentContext(
            config=NodeAgentConfiguration(), gates=build_gates({}), settings=settings, clock=SystemClock(), tasks=tasks
        )
        answers = []
        for provided in plugins.provide_all("nodeagent_provide_credential_providers", context=context):
            for provider in provided.value:
                if isinstance(provider, DiagnosableCredentialProvider):
                    answers.append(await provider.lookup(repository))
                else:
                    answers.append(CredentialLookupResult(tuple(await provider.credentials(repository))))
        return answers


def _report(image: str, repository: str, answers: Sequence[CredentialLookupResult]) -> dict[str, Any]:
    """Return what there is to say, without any password."""
    providers = [
        {
            "name": inquiry.source,
            "matches": list(inquiry.patterns),
            "command": list(inquiry.command),
            "request": json.loads(inquiry.request) if inquiry.request else None,
            "auth": {location: _shown(credentials) for location, credentials in inquiry.auth.items()},
            "cached": inquiry.caching,
            "seconds": round(inquiry.seconds, 3),
            "failure": inquiry.failure,
            "stderr": _without_secrets(inquiry.detail, answers),
        }
        for answer in answers
        for inquiry in answer.lookups
    ]
    found = [
        {"provider": credentials.source, **_shown(credentials)}
        for answer in answers
        for credentials in answer.credentials
    ]
    return {"image": image, "repository": repository, "providers": providers, "credentials": found}


def _shown(credentials: Credentials) -> dict[str, str]:
    """Return user name and a mask; without password the user name is the secret, as some registries have tokens."""
    username = credentials.username if credentials.password else MASK if credentials.username else ""
    return {"username": username, "password": MASK if credentials.password else ""}


def _without_secrets(text: str, answers: Sequence[CredentialLookupResult]) -> str:
    for answer in answers:
        for inquiry in answer.lookups:
            for credentials in inquiry.auth.values():
                if len(credentials.password) >= _SHORTEST_SECRET:
                    text = text.replace(credentials.password, MASK)
    return masked(_SECRET_PAIR.sub(rf"\1{MASK}", text))


def _print(report: Mapping[str, Any]) -> None:
    print(f"{report['image']} is asked for as {report['repository']}")
    for provider in report["providers"]:
        _print_provider(provider)
    if report["credentials"]:
        print("\nA pull tries, in this order:")
        for number, found in enumerate(report["credentials"], 1):
            print(f"  {number}. {_pair(found)} from {found['provider']}")
    else:
        print("\nA pull is anonymous, unless the pod has pull secrets.")


def _print_provider(provider: Mapping[str, Any]) -> None:
    if not provider["matches"]:
        print(f"\n{provider['name']}: no pattern matches")
        return
    print(f"\n{provider['name']}: matches {', '.join(provider['matches'])}")
    print(f"  ran       {shlex.join(provider['command'])}")
    print(f"  asked     {json.dumps(provider['request'])}")
    if provider["failure"]:
        print(f"  failed    it {provider['failure']}")
        for line in provider["stderr"].splitlines():
            print(f"  stderr    {_printable(line)}")
        return
    print(f"  answered  after {provider['seconds']:g} s; cached: {provider['cached']}")
    for location, credentials in provider["auth"].items():
        print(f"  auth      {_printable(location)}: {_pair(credentials)}")
    if not provider["auth"]:
        print("  auth      none: an anonymous pull")


def _pair(credentials: Mapping[str, str]) -> str:
    return f"user {_printable(credentials['username'])!r}, password {credentials['password'] or 'empty'}"


def _printable(text: str) -> str:
    """Return *text* without what could move the cursor or change colours."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
