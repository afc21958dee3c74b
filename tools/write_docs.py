"""Write the pages of docs/ that are made from the code (`make docs`): settings, events, exit codes."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def configuration() -> str:
    from barnabas.config import config_table_markdown

    return config_table_markdown()


def events() -> str:
    """The catalogue of named events."""
    from barnabas import server
    from barnabas.server.events import CATALOGUE

    for module in pkgutil.iter_modules(server.__path__, "barnabas.server."):
        importlib.import_module(module.name)  # modules register their events when they are imported
    rows = [
        f"| `{event.name}` | {logging.getLevelName(event.level).lower()} | {event.sentence} |"
        for event in sorted(CATALOGUE.values(), key=lambda event: event.name)
    ]
    head = (
        "# Events\n\nWhat a node writes to standard error, by name: `key=value` lines, or JSON with "
        "`barnabas.events.format=json`.\nScripts and alerts may rely on the names. This page is written by "
        "`make docs`.\n\n| event | level | says |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def exit_codes() -> str:
    from barnabas.cli.exits import MEANINGS

    rows = [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    head = (
        "# The command line\n\n`barnabas --help` lists the nouns, `barnabas NOUN --help` teaches one by example. "
        "Every listing has `--json`:\none document with a `version`, which changes only when a field's meaning "
        "does. Errors go to standard error as\n`error: ...` with a line `next: ...`. This page is written by "
        "`make docs`.\n\n| exit code | means |\n|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


PAGES = {"configuration.md": configuration, "events.md": events, "cli.md": exit_codes}


def main() -> int:
    for name, write in PAGES.items():
        (DOCS / name).write_text(write())
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
