"""Generation of the keys and certificates of the server, at each start, unless valid ones exist."""

from __future__ import annotations

import os
from pathlib import Path

from apiserver_stub.authn.keys import KeyFileError, SigningKey
from apiserver_stub.nodes.client_certificate import generate_client_certificate
from apiserver_stub.options import Options
from apiserver_stub.server.generated_certificate import generate_certificate
from nodeagent.base.tls import TlsError


def generate_keys(options: Options) -> Path:
    """Generate keys and certificates that are not configured, and return the CA certificate for clients.

    :raises TlsError: an existing file is invalid, or a file cannot be written.
    :raises OSError: a file cannot be read or written.
    """
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = generate_certificate(options)
    if options.nodeagent_client_certificate is None:
        generate_client_certificate(options.authorities)
    if options.generated_token_key is not None:
        try:
            SigningKey.load_or_create(options.generated_token_key)
        except KeyFileError as error:
            raise TlsError(str(error)) from error
    return authority


class KeyGeneration:
    """Generation in a child process, while this one imports its modules.

    The libraries for keys need 10 MiB, and a server may not use them later. Create it before threads are started.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._output, output = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                os.write(output, os.fsencode(generate_keys(options)))
            finally:
                os._exit(0)  # An error is repeated, and then reported, by the parent.
        os.close(output)

    def result(self) -> Path:
        """Wait for the child and return the CA certificate for clients; called once.

        :raises TlsError: see :func:`generate_keys`.
        :raises OSError: see :func:`generate_keys`.
        """
        with os.fdopen(self._output, "rb") as output:
            found = output.read()
        os.waitpid(self._process, 0)
        return Path(os.fsdecode(found)) if found else generate_keys(self._options)
