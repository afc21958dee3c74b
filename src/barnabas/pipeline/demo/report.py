"""What is left to look at: the table of delays on the screen, and the same as a picture."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from barnabas.pipeline.jobs.flights import Delays

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["picture", "plain_table", "rich_table"]

TITLE = "Mean departure delay in minutes, by carrier and scheduled hour (New York, 2013)"
_HOTTEST = 60.0


Cells: TypeAlias = dict[tuple[str, int], Delays]


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


def picture(cells: Cells, path: str) -> None:
    """Draw the table as a heat map (PNG)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    carriers, hours, means = grid(cells)
    flights = sum(delays.flights for delays in cells.values())
    figure, axes = pyplot.subplots(figsize=(11, 6), layout="constrained")
    image = axes.imshow(means, cmap="RdYlGn_r", vmin=-10, vmax=_HOTTEST, aspect="auto")
    axes.set_xticks(range(len(hours)), [f"{hour}h" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    for y, row in enumerate(means):
        for x, value in enumerate(row):
            if not math.isnan(value):
                axes.text(x, y, f"{round(value)}", ha="center", va="center", fontsize=8)
    axes.set_title(f"{TITLE}\n{flights:,} flights through Barnabas and Spark", fontsize=11)
    figure.colorbar(image, label="minutes", shrink=0.8)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
