"""Credential providers in shell, Python and C, and some that fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

V1 = "credentialprovider.kubelet.k8s.io/v1"

SHELL = """\
#!/bin/sh
set -eu
read -r request  # Line by line, as some providers do.
echo "$request" > "$REQUEST_FILE"
cat <<END
{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
 "cacheKeyType": "Image", "cacheDuration": "5m0s", "auth": {"$1": {"username": "$LOGIN", "password": "$PASSPHRASE"}}}
END
"""

PYTHON = """\
#!{python}
import json, os, sys

request = json.load(sys.stdin)
assert request["kind"] == "CredentialProviderRequest", request
with open(os.environ["REQUEST_FILE"], "w") as file:
    json.dump(request, file)
host = request["image"].partition("/")[0]
auth = {{host: {{"username": os.environ["LOGIN"], "password": os.environ["PASSPHRASE"]}}}}
response = {{"kind": "CredentialProviderResponse", "apiVersion": request["apiVersion"], "cacheKeyType": "Registry"}}
json.dump({{**response, "auth": auth}}, sys.stdout)
"""

C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    char request[4096];
    size_t length = fread(request, 1, sizeof request - 1, stdin);
    request[length] = 0;
    FILE *record = fopen(getenv("REQUEST_FILE"), "w");
    if (argc != 2 || !record || !strstr(request, "\"image\":")) return 1;
    fputs(request, record);
    fclose(record);
    printf("{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1alpha1\","
           "\"cacheKeyType\":\"Global\",\"auth\":{\"%s\":{\"username\":\"%s\",\"password\":\"%s\"}}}\n",
           argv[1], getenv("LOGIN"), getenv("PASSPHRASE"));
    return 0;
}
"""


class Providers:
    """Directory of executables and the configuration that lists them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "providers"
        self.directory.mkdir()
        self.config = directory / "providers.yaml"
        self._entries: list[dict[str, Any]] = []

    @property
    def flags(self) -> list[str]:
        """Return the flags for the agent and for ``creds test``."""
        return [
            f"--image-credential-provider-config={self.config}",
            f"--image-credential-provider-bin-dir={self.directory}",
        ]

    def script(self, name: str, text: str) -> Path:
        """Write an executable script."""
        file = self.directory / name
        file.write_text(text)
        file.chmod(0o755)
        return file

    def python(self, name: str) -> Path:
        return self.script(name, PYTHON.format(python=sys.executable))

    def c(self, name: str) -> Path:
        """Compile the executable."""
        file = self.directory / name
        subprocess.run(["gcc", "-O1", "-x", "c", "-", "-o", file], input=C, check=True, text=True)
        return file

    def enable(
        self,
        name: str,
        image: str,
        *,
        login: tuple[str, str] = ("", ""),
        version: str = V1,
        args: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        """Append the executable to the configuration; *fields* are further ones of its entry."""
        environment = {"LOGIN": login[0], "PASSPHRASE": login[1], "REQUEST_FILE": str(self.request_file(name))}
        self._entries.append(
            {
                "name": name,
                "matchImages": [image],
                "defaultCacheDuration": "1m",
                "apiVersion": version,
                "args": list(args),
                "env": [{"name": key, "value": value} for key, value in environment.items()],
                **fields,
            }
        )
        kind = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
        self.config.write_text(yaml.safe_dump({**kind, "providers": self._entries}))

    def request_file(self, name: str) -> Path:
        """Return the file in which a working executable records its request."""
        return self.directory.with_name(f"{name}.request")
