"""Found by Spark itself: packages called `pyspark_*` register their `DefaultSource` as a data source.

With `barnabas[spark]` installed, `spark.readStream.format("barnabas")` works without a jar and without
`spark.dataSource.register`.  Everything is in `barnabas.pipeline`.
"""

from __future__ import annotations

from barnabas.pipeline.source import BarnabasSource as DefaultSource
from barnabas.pipeline.worker_heap import settle

__all__ = ["DefaultSource"]

settle()  # Spark looks for data sources in a worker like those that plan
