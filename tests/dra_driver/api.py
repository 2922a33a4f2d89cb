"""Access of the driver to claims in the API."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from pathlib import Path
from typing import Any


class ClaimApi:
    """Client with the credentials in the file ``ready.json`` of the bundled server."""

    def __init__(self, facts: Path) -> None:
        self._facts = json.loads(facts.read_text())

    def allocated(self, namespace: str, name: str, uid: str, driver: str) -> list[tuple[str, str]]:
        """Return request and name of the devices of *driver* in a claim.

        :raises RuntimeError: the claim does not exist, or was replaced.
        """
        claim = self._get(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
        if claim.get("metadata", {}).get("uid") != uid:
            raise RuntimeError(f"claim {namespace}/{name} does not have UID {uid}")
        results = claim["status"]["allocation"]["devices"]["results"]
        return [(each["request"], each["device"]) for each in results if each["driver"] == driver]

    def _get(self, path: str) -> Any:
        url = urllib.parse.urlparse(self._facts["url"])
        context = ssl.create_default_context(cafile=self._facts["caFile"])
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=10)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._facts['token']}"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()
