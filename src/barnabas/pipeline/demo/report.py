"""What is left to look at: the delays as a table, as Parquet, and as a picture that shows what happened, too."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas.pipeline.demo.proof import Cell
from barnabas.pipeline.demo.timeline import Timeline
from barnabas.pipeline.jobs.flights import Delays

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["by_carrier_and_hour", "picture", "plain_table", "rich_table", "write_parquet"]

TITLE = "Mean departure delay in minutes, by carrier and scheduled hour (New York, 2013)"
_HOTTEST = 60.0


Cells: TypeAlias = dict[tuple[str, int], Delays]


def by_carrier_and_hour(records: Iterable[Cell]) -> Cells:
    """The records of the topic of delays, their days added up."""
    cells: Cells = {}
    for record in records:
        where = record.carrier, record.hour
        before = cells.get(where, Delays(0, 0, 0))
        cells[where] = Delays(*(one + other for one, other in zip(before, record.delays, strict=True)))
    return cells


def write_parquet(records: Iterable[Cell], path: str) -> None:
    """The records of the topic of delays, sorted, a row each."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {"date": record.date, "carrier": record.carrier, "hour": record.hour, **record.delays._asdict()}
        for record in sorted(records)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), path)


def grid(cells: Cells) -> tuple[list[str], list[int], list[list[float]]]:
    """Carriers, the latest first; hours; mean delays (nan where nothing left)."""
    minutes, departed = Counter[str](), Counter[str]()
    for (carrier, _), delays in cells.items():
        minutes[carrier] += delays.minutes
        departed[carrier] += delays.departed
    carriers = sorted(departed, key=lambda carrier: (-minutes[carrier] / max(1, departed[carrier]), carrier))
    hours = sorted({hour for (_, hour), delays in cells.items() if delays.departed})
    nothing = Delays(0, 0, 0)
    return carriers, hours, [[cells.get((c, h), nothing).mean for h in hours] for c in carriers]


def plain_table(cells: Cells) -> str:
    """The table for a pipe."""
    carriers, hours, means = grid(cells)
    lines = [TITLE, "     " + "".join(f"{hour:>4}h" for hour in hours)]
    for carrier, row in zip(carriers, means, strict=True):
        lines.append(f"{carrier:<5}" + "".join(f"{'·' if math.isnan(v) else f'{round(v)}':>5}" for v in row))
    return "\n".join(lines)


def rich_table(cells: Cells) -> Table:
    """The table for a terminal: the redder, the later."""
    from rich.table import Table
    from rich.text import Text

    carriers, hours, means = grid(cells)
    table = Table(title=TITLE, box=None, padding=(0, 1, 0, 0), title_justify="left", title_style="bold")
    table.add_column("")
    for hour in hours:
        table.add_column(f"{hour}h", justify="right", style="dim", no_wrap=True)
    for carrier, row in zip(carriers, means, strict=True):
        table.add_row(
            Text(carrier, style="bold"),
            *(
                Text("·", "dim") if math.isnan(value) else Text(f"{round(value)}", heat(value))
                for value in row
            ),
        )
    return table


def heat(minutes: float) -> str:
    """A colour from green (on time) over yellow to red (an hour late)."""
    share = min(1.0, max(0.0, minutes / _HOTTEST))
    red, green = min(1.0, 2 * share), min(1.0, 2 - 2 * share)
    return f"rgb({int(90 + 150 * red)},{int(80 + 140 * green)},90)"


def picture(cells: Cells, timeline: Timeline, path: str) -> None:
    """Draw (PNG) the table as a heat map, and below it what came in and went out meanwhile."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    flights = sum(delays.flights for delays in cells.values())
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(11, 9), layout="constrained", height_ratios=(3, 2)
    )
    _draw_table(figure, above, cells)
    above.set_title(f"{TITLE}\n{flights:,} flights through Barnabas, Spark, and Barnabas again", fontsize=11)
    _draw_timeline(below, timeline)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw_table(figure: Any, axes: Any, cells: Cells) -> None:
    carriers, hours, means = grid(cells)
    image = axes.imshow(means, cmap="RdYlGn_r", vmin=-10, vmax=_HOTTEST, aspect="auto")
    axes.set_xticks(range(len(hours)), [f"{hour}h" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    for y, row in enumerate(means):
        for x, value in enumerate(row):
            if not math.isnan(value):
                axes.text(x, y, f"{round(value)}", ha="center", va="center", fontsize=8)
    figure.colorbar(image, ax=axes, label="minutes", shrink=0.8)


def _draw_timeline(axes: Any, timeline: Timeline) -> None:
    at = [sample.at for sample in timeline.samples]
    axes.plot(at, [sample.delivered for sample in timeline.samples], color="tab:blue", label="flights in")
    axes.plot(
        at, [sample.through for sample in timeline.samples], color="tab:green", label="flights through Spark"
    )
    other = axes.twinx()
    other.plot(at, [sample.written for sample in timeline.samples], color="tab:purple")
    axes.plot([], [], color="tab:purple", label="delays out, as a reader sees them committed (right)")
    top = axes.get_ylim()[1]
    for number, period in enumerate(timeline.periods):
        until = timeline.now if period.until is None else period.until
        area, ink = ("tab:red", "darkred") if period.killed else ("tab:blue", "navy")
        axes.axvspan(period.since, until, color=area, alpha=0.15, linewidth=0)
        axes.axvline(period.since, color=ink, linewidth=0.8)
        said, height = f" {period.what}{' (kill -9)' if period.killed else ''}", top * (0.06 + 0.08 * number)
        axes.text(period.since, height, said, color=ink, bbox={"color": "white", "alpha": 0.7, "pad": 1})
    axes.set_xlabel("seconds")
    axes.set_ylabel("flights")
    axes.set_ylim(0, top)
    other.set_ylabel("delays")
    other.set_ylim(0, None)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    other.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="upper left", fontsize=9)
