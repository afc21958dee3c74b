"""Write the pages of docs/ that are made from the code (`make docs`): settings, events, exit codes, roles."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import sys
from pathlib import Path

from tools.api_page import api

DOCS = Path(__file__).parents[1] / "docs"


def configuration() -> str:
    from barnabas.config import config_table_markdown

    return config_table_markdown()


def events() -> str:
    """The catalogue of named events."""
    from barnabas import server
    from barnabas.server.observe.events import CATALOGUE

    for module in pkgutil.walk_packages(server.__path__, "barnabas.server."):
        importlib.import_module(module.name)  # modules register their events when they are imported
    rows = [
        f"| `{event.name}` | {logging.getLevelName(event.level).lower()} | {event.sentence} |"
        for event in sorted(CATALOGUE.values(), key=lambda event: event.name)
    ]
    head = (
        "# Events\n\nA node writes named events to standard error: `key=value` lines, or JSON with "
        "`barnabas.events.format=json`.\nScripts and alerts may rely on the names. `make docs` writes this "
        "page.\n\n| event | level | meaning |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def exit_codes() -> str:
    from barnabas.cli.exits import MEANINGS

    rows = [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    head = (
        "# The command line\n\n`barnabas --help` lists the nouns, and `barnabas NOUN --help` shows examples of "
        "one. Every listing has `--json`, which\nprints one document with a `version`; the version changes only "
        "when the meaning of a field changes. Errors go to\nstandard error as `error: ...` with a line `next: "
        "...`.\n[records.md](records.md) explains `produce` and `consume`, [quotas.md](quotas.md) "
        "`quotas`, [telemetry.md](telemetry.md)\n`telemetry`.\n`make docs` writes this page.\n\n"
        "| exit code | meaning |\n|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def raft_roles() -> str:
    """The roles of a controller, drawn from the table that the code asks before every change."""
    from barnabas.raft import roles

    kinds = (
        roles.Unattached,
        roles.Prospective,
        roles.Candidate,
        roles.Leader,
        roles.Resigned,
        roles.Follower,
    )
    anywhere = {roles.Cause.START, roles.Cause.HIGHER_EPOCH, roles.Cause.LEADER_FOUND}
    order = [kind.name for kind in kinds]
    rows = sorted(
        (row for row in roles.TRANSITIONS if row.cause not in anywhere),
        key=lambda row: (order.index(row.source), order.index(row.target), row.cause.value),
    )
    arrows = [f"    {row.source} --> {row.target}: {row.cause.name.lower()}" for row in rows]
    meanings = [f"| {kind.name} | {(kind.__doc__ or '').partition(chr(10))[0]} |" for kind in kinds]
    causes = [
        f"| {row.source} | {row.target} | {row.cause.name.lower()} | {row.cause.value} |" for row in rows
    ]
    starts = sorted(row.target for row in roles.TRANSITIONS if row.cause is roles.Cause.START)
    return f"""# The roles of a controller

The table `TRANSITIONS` in `src/barnabas/raft/roles.py` lists every change of role. The code checks each change
against it, so no other change can happen. `make docs` writes this page; [quorum.md](quorum.md) explains what
the roles are for.

| role | meaning |
|---|---|
{chr(10).join(meanings)}

```mermaid
stateDiagram-v2
{chr(10).join(f"    [*] --> {name}" for name in starts)}
{chr(10).join(arrows)}
```

The drawing leaves out two transitions, which start from every role:

- to `unattached`: {roles.Cause.HIGHER_EPOCH.value};
- to `follower`: {roles.Cause.LEADER_FOUND.value}.

| from | to | event `raft.role` says | because |
|---|---|---|---|
{chr(10).join(causes)}
"""


PAGES = {
    "api.md": api,
    "configuration.md": configuration,
    "events.md": events,
    "cli.md": exit_codes,
    "raft-roles.md": raft_roles,
}


def main() -> int:
    for name, write in PAGES.items():
        (DOCS / name).write_text(write())
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
