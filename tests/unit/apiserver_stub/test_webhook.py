"""Tests for the client of webhooks that are configured with a kubeconfig."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.webhook import Webhook
from nodeagent.base.kubeconfig import KubeconfigError


@pytest.mark.parametrize("proxy", [True, False])
@pytest.mark.parametrize("dialer", [object(), None], ids=["egress", "direct"])
def test_proxy_is_rejected_with_an_egress_selection(tmp_path: Path, proxy: bool, dialer: Any) -> None:
    cluster = {"server": "https://service.test", **({"proxy-url": "http://proxy.test:8080"} if proxy else {})}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))

    if proxy and dialer is not None:
        with pytest.raises(KubeconfigError, match="cannot be used with an egress selection"):
            Webhook(path, dialer=dialer)
    else:
        Webhook(path, dialer=dialer)
