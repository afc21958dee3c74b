"""Checks that are left out, one at a time: each API without its guard, each handler that does not ask.

If nobody noticed, the test of all APIs (`test_rights`) would be worth nothing.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.server.rights_cases import CLUSTER_DENIED, DENIED, HIDDEN, request_of
from tests.server.secured import Secured, run_secured
from tests.server.test_rights import FOR_CLIENTS, codes, with_topic

from barnabas.server.rights.guards import Guarded
from barnabas.server.rights.needed import Needed, needed

HANDLERS = {
    0: "barnabas.broker.requests.produce",
    1: "barnabas.broker.requests.reading",
    2: "barnabas.broker.requests.list_offsets",
    3: "barnabas.server.api.metadata",
    21: "barnabas.broker.requests.delete_records",
    23: "barnabas.broker.requests.leader_epochs",
    25: "barnabas.broker.transactions.answering",
    26: "barnabas.broker.transactions.answering",
    27: "barnabas.broker.requests.txn_markers",
    61: "barnabas.broker.requests.describe_producers",
    65: "barnabas.broker.transactions.answering",
    75: "barnabas.server.api.admin",
}
"""API -> the module whose handler asks by itself."""
_HIDES = {16, 60, 66, 71, 72}
"""Of these nothing is refused: what they hide needs something to hide."""


def test_an_api_whose_check_is_left_out_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in FOR_CLIENTS if row.key not in _HIDES]
    left_out: set[int] = set()
    serve = Guarded.serve

    def without(self: Guarded, context: Any, request: Any) -> Any:
        if self._row.key in left_out:
            return self._handler(context, request)
        return serve(self, context, request)

    monkeypatch.setattr(Guarded, "serve", without)

    async def scenario(node: Secured) -> None:
        topic_id = await with_topic(node)
        unnoticed = []
        planted = 0
        for row in sorted(rows, key=lambda row: row.key in (20, 64)):  # (what removes something comes last)
            version, expected = row.high, CLUSTER_DENIED if row.key == 24 else DENIED[row.key]
            mallory: Any = await node.login("mallory")
            request = request_of(row.key, version, HIDDEN, topic_id)
            with pytest.MonkeyPatch.context() as patch:
                if needed(row) is Needed.IN_HANDLER:
                    if row.key not in HANDLERS:
                        continue
                    patch.setattr(import_module(HANDLERS[row.key]), "allowed", lambda *given, **options: True)
                left_out.add(row.key)
                answer = await mallory.request(request, version, 5.0)
                left_out.clear()
            planted += 1
            if expected in set(codes(answer)):
                unnoticed.append(f"API {row.key} v{version}: {answer}")
        assert unnoticed == []
        assert planted >= 40

    run_secured(tmp_path, monkeypatch, scenario)
