"""Construction of the issuer of service account tokens with its keys."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from apiserver_stub.authn.keys import KeyFileError, PublicKey, SigningKey, load_public_keys
from apiserver_stub.authn.service_account import ServiceAccountTokens
from apiserver_stub.authn.token_keys import FileKeys, GeneratedKey, SigningError, TokenKeys
from apiserver_stub.options import Options
from apiserver_stub.storage import Store
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.duration import Duration


async def build_service_account_tokens(
    options: Options, store: Store, tasks: TaskOwner, stack: AsyncExitStack
) -> ServiceAccountTokens:
    """Return the issuer of tokens.

    :raises KeyFileError: a key file is invalid.
    :raises SigningError: the external signer does not respond, or its responses are invalid.
    """
    keys: TokenKeys
    if options.service_account_signing_endpoint:
        keys = await _external_keys(options, tasks, stack)
    else:
        keys = await asyncio.to_thread(_file_keys, options)
    return ServiceAccountTokens(
        store,
        keys,
        options.service_account_issuer,
        options.identity,
        gates=options.gates,
        api_audiences=options.api_audiences,
        max_seconds=int(options.service_account_max_token_expiration_seconds) or keys.max_token_seconds,
        extend=options.service_account_extend_token_expiration,
    )


async def _external_keys(options: Options, tasks: TaskOwner, stack: AsyncExitStack) -> TokenKeys:
    from apiserver_stub.authn.external_signer.client import SignerClient  # Deferred: rarely needed.
    from apiserver_stub.authn.external_signer.keys import ExternalKeys
    from apiserver_stub.authn.external_signer.metrics import SignerMetrics

    metrics = SignerMetrics()
    client = SignerClient(options.service_account_signing_endpoint, metrics)
    stack.push_async_callback(client.close)
    keys = ExternalKeys(client, SystemClock(), metrics)
    await keys.load()
    configured, supported = options.service_account_max_token_expiration_seconds, keys.max_token_seconds
    if configured > supported:
        compared = " > ".join(str(Duration.of(seconds=seconds)) for seconds in (configured, supported))
        raise SigningError(
            "service-account-max-token-expiration cannot be set longer than the token expiration supported by "
            f"service-account-signing-endpoint: {compared}"
        )
    tasks.start(keys.run(), "external-signer-keys")
    return keys


def _file_keys(options: Options) -> TokenKeys:
    signing_file, generated = options.service_account_signing_key_file, options.generated_token_key
    if generated is not None:
        if not (options.service_account_key_file or options.tls_private_key_file):
            return GeneratedKey(generated)
        key = SigningKey.load_or_create(generated)
    elif signing_file is not None:
        try:
            key = SigningKey.load(signing_file)
        except KeyFileError as error:
            raise KeyFileError(f"failed to parse service-account-issuer-key-file: {error}") from error
    trusted = [public for path in options.service_account_key_file for public in load_public_keys(path)]
    if not options.service_account_key_file:
        trusted += _serving_key(options.tls_private_key_file)
    if signing_file is None:
        trusted.append(key.public)
    return FileKeys(key, trusted)


def _serving_key(path: Path | None) -> list[PublicKey]:
    """Return the public keys in the serving key file; an unusable file is reported by its other users."""
    try:
        return load_public_keys(path) if path is not None else []
    except KeyFileError:
        return []
