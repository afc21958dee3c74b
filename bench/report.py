"""The table and the picture: docs/performance.md and docs/performance.png."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.peer import PEER

from bench.cells import Cell, Figures
from bench.processes import machine

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- begin: written by make bench -->", "<!-- end: written by make bench -->"


@dataclass
class Row:
    """All rounds of one cell, by peer."""

    cell: Cell
    mode: str
    rounds: dict[str, list[Figures]] = field(default_factory=dict)

    def best(self, peer: str) -> Figures | None:
        """The round with the lowest compared figure (the least disturbed one)."""
        found = self.rounds.get(peer)
        return min(found, key=lambda figures: figures[self.cell.key]) if found else None

    def ratio(self, one: str = "Barnabas", other: str = "Apache Kafka") -> float | None:
        """Divide the compared figure of one peer by the other's."""
        ours, theirs = self.best(one), self.best(other)
        if ours is None or theirs is None or not theirs[self.cell.key]:
            return None
        return ours[self.cell.key] / theirs[self.cell.key]


def add_earlier(every: list[Row], rows: list[Row]) -> list[Row]:
    """The rows of this run with the rounds of docs/performance.json before them; `every` names all cells."""
    raw = json.loads((DOCS / "performance.json").read_text())["rows"]
    earlier = {(row["cell"], row["mode"]): row["rounds"] for row in raw}
    fresh = {(row.cell.name, row.mode): row.rounds for row in rows}
    merged = []
    for row in every:
        place = (row.cell.name, row.mode)
        for found in (earlier.get(place, {}), fresh.get(place, {})):
            for peer, rounds in found.items():
                row.rounds.setdefault(peer, []).extend(rounds)
        if row.rounds:
            merged.append(row)
    return merged


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(rows: list[Row]) -> str:
    out = [
        "| what | mode | unit | Barnabas | Apache Kafka | ratio | beside it (Barnabas / Apache Kafka) |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        ours, theirs, ratio = row.best("Barnabas"), row.best("Apache Kafka"), row.ratio()
        beside = ", ".join(
            f"{name} {number(ours[name]) if ours else '-'} / {number(theirs[name]) if theirs else '-'}"
            for name in row.cell.also
            if ours and name in ours
        )
        cells = [number(found[row.cell.key]) if found else "-" for found in (ours, theirs)]
        out.append(
            f"| {row.cell.name} | {row.mode} | {row.cell.unit} | {cells[0]} | {cells[1]} | "
            f"{f'{ratio:.2f}' if ratio is not None else '-'} | {beside} |"
        )
    return "\n".join(out)


def put_between(begin: str, end: str, text: str, page: str = "performance.md") -> Path:
    """Put a text between its marks in a page of docs/."""
    path = DOCS / page
    head, _, rest = path.read_text().partition(begin)
    path.write_text(f"{head}{begin}\n{text}\n{end}{rest.partition(end)[2]}")
    return path


def sides_table(found: Mapping[str, Figures], rows: Mapping[str, str], said: str, before: float) -> str:
    """What each side cost, a column each; `rows` names the figures, `said` how they were measured."""
    out = [
        f"Measured {datetime.date.today().isoformat()} at {revision()}; {machine()}; load before {before:.1f}; "
        + said,
        "",
        f"| what | {' | '.join(found)} |",
        "|---|" + "---:|" * len(found),
    ]
    for key, words in rows.items():
        if any(key in figures for figures in found.values()):
            values = (number(figures[key]) if key in figures else "-" for figures in found.values())
            out.append(f"| {words} | {' | '.join(values)} |")
    return "\n".join(out)


def revision() -> str:
    """The commit that is measured."""
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return run.stdout.strip() or "an unknown commit"


def write(rows: list[Row], *, rounds: int, load: float, why_alone: str | None) -> Path:
    """Put the table between its marks in docs/performance.md; picture and raw figures go beside it."""
    head = [
        f"Measured {datetime.date.today().isoformat()} at {revision()}, "
        + (f"next to {PEER}" if why_alone is None else f"alone ({why_alone})")
        + f"; {machine()}; at least {rounds} interleaved rounds, the least of each side; load before {load:.1f}.",
        "",
        "Lower is better. *page cache*: an answer when the record is in the page cache (Kafka's default); "
        "*fsync*: an answer when it is synced (our default; Kafka with `log.flush.interval.messages=1`).",
        "",
    ]
    page = DOCS / "performance.md"
    text = page.read_text() if page.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    shown = "\n".join([*head, table(rows), "", "![ratios](performance.png)"])
    page.write_text(f"{before}{BEGIN}\n{shown}\n{END}{after}")
    raw = [{"cell": row.cell.name, "mode": row.mode, "rounds": row.rounds} for row in rows]
    (DOCS / "performance.json").write_text(
        json.dumps({"version": 1, "kind": "bench", "rows": raw}, indent=1) + "\n"
    )
    if why_alone is None:
        picture(rows)
    return page


def picture(rows: list[Row]) -> None:
    """Our cost as a part of Apache Kafka's, one bar a cell."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [(f"{row.cell.name} ({row.mode})", ratio) for row in rows if (ratio := row.ratio()) is not None]
    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(shown) + 1.2))
    names = [name for name, _ in reversed(shown)]
    values = [ratio for _, ratio in reversed(shown)]
    colours = ["#2a7f62" if value <= 1 else "#b5532a" for value in values]
    axes.barh(names, [min(value, 3) for value in values], color=colours)
    for index, value in enumerate(values):
        axes.text(min(value, 3) + 0.02, index, f"{value:.2f}", va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel(f"Barnabas / {PEER} (1 = the same, less is better)")
    axes.tick_params(axis="y", labelsize=8)
    figure.tight_layout()
    figure.savefig(DOCS / "performance.png", dpi=110)
    pyplot.close(figure)
