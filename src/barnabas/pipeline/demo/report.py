"""What is left to look at: the table of delays on the screen, and the same as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from barnabas.pipeline.jobs.flights import Answer

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["picture", "plain_table", "rich_table"]

TITLE = "Mean departure delay in minutes, by carrier and scheduled hour (New York, 2013)"
_HOTTEST = 60.0


def grid(answer: Answer) -> tuple[list[str], list[int], list[list[float]]]:
    """Carriers by their mean delay, hours, and the mean delays (nan where nothing left)."""
    totals = {
        carrier: [sum(values) for values in zip(*(d for (c, _), d in answer.cells.items() if c == carrier))]
        for carrier in {carrier for carrier, _ in answer.cells}
    }
    carriers = sorted(totals, key=lambda carrier: -totals[carrier][2] / max(1, totals[carrier][1]))
    hours = sorted({hour for (_, hour), delays in answer.cells.items() if delays.departed})
    nothing = math.nan
    cells = [
        [answer.cells[c, h].mean if (c, h) in answer.cells else nothing for h in hours] for c in carriers
    ]
    return carriers, hours, cells


def plain_table(answer: Answer) -> str:
    """The table for a pipe."""
    carriers, hours, cells = grid(answer)
    lines = [TITLE, "     " + "".join(f"{hour:>4}h" for hour in hours)]
    for carrier, row in zip(carriers, cells, strict=True):
        lines.append(f"{carrier:<5}" + "".join(f"{'·' if math.isnan(v) else f'{v:.0f}':>5}" for v in row))
    return "\n".join(lines)


def rich_table(answer: Answer) -> Table:
    """The table for a terminal: the redder, the later."""
    from rich.table import Table
    from rich.text import Text

    carriers, hours, cells = grid(answer)
    table = Table(title=TITLE, box=None, padding=(0, 1, 0, 0), title_justify="left", title_style="bold")
    table.add_column("")
    for hour in hours:
        table.add_column(f"{hour}h", justify="right", style="dim", no_wrap=True)
    for carrier, row in zip(carriers, cells, strict=True):
        table.add_row(
            Text(carrier, style="bold"),
            *(Text("·", "dim") if math.isnan(value) else Text(f"{value:.0f}", heat(value)) for value in row),
        )
    return table


def heat(minutes: float) -> str:
    """A colour from green (on time) over yellow to red (an hour late)."""
    share = min(1.0, max(0.0, minutes / _HOTTEST))
    red, green = min(1.0, 2 * share), min(1.0, 2 - 2 * share)
    return f"rgb({int(90 + 150 * red)},{int(80 + 140 * green)},90)"


def picture(answer: Answer, path: str) -> None:
    """Draw the table as a heat map (PNG)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    carriers, hours, cells = grid(answer)
    figure, axes = pyplot.subplots(figsize=(11, 6), layout="constrained")
    image = axes.imshow(cells, cmap="RdYlGn_r", vmin=-10, vmax=_HOTTEST, aspect="auto")
    axes.set_xticks(range(len(hours)), [f"{hour}h" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    for y, row in enumerate(cells):
        for x, value in enumerate(row):
            if not math.isnan(value):
                axes.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=8)
    axes.set_title(f"{TITLE}\n{answer.rows:,} flights through Barnabas and Spark, each once", fontsize=11)
    figure.colorbar(image, label="minutes", shrink=0.8)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
