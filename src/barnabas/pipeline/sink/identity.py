"""Who a sink is: the id of its query, which Spark keeps in the checkpoint.

The id comes from there and not from the path: where somebody removes a checkpoint, the query that begins anew at
the same path counts its micro-batches from 0, and must not take over the decisions of the old one.
"""

from __future__ import annotations

import json
import re

from barnabas.errors import ConfigError
from barnabas.pipeline.sink.options import SinkOptions

__all__ = ["sink_name"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}")


def sink_name(options: SinkOptions) -> str:
    """The name of the sink.  Raises ConfigError where there is no checkpoint, or it cannot be read here."""
    if options.sink_id is not None:
        if not _NAME.fullmatch(options.sink_id):
            raise ConfigError(
                f"sinkId={options.sink_id[:150]}: letters, digits, '.', '_' and '-', at most 120"
            )
        return options.sink_id
    if options.checkpoint is None:
        raise ConfigError(
            "an exactly-once sink has to know its query's checkpoint",
            next_step='give .option("checkpointLocation", ...) to the query itself, not only to the session; '
            "or delivery=at-least-once",
        )
    path = f"{options.checkpoint.rstrip('/')}/metadata"
    try:
        name = str(json.loads(_read(path))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the query's id cannot be read from {path}: {error}",
            next_step="put the checkpoint where the driver's Python can read it, or name the sink with sinkId "
            "(a new name for each new checkpoint)",
        ) from error
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{path} names no query: {name[:150]!r}")
    return name


def _read(path: str) -> bytes:
    """A small file, local or on a file system that Arrow knows (hdfs, s3, gs)."""
    from pyarrow import fs

    if "://" not in path and not path.startswith("file:"):
        with open(path, "rb") as file:
            return file.read(1 << 16)
    if path.startswith("file:") and not path.startswith("file://"):
        path = "file://" + path[len("file:") :]
    system, inner = fs.FileSystem.from_uri(path)
    with system.open_input_stream(inner) as stream:
        return bytes(stream.read(1 << 16))
