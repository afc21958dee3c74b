"""Spark writes to topics, exactly once: every record of a micro-batch is there once, or none is.

    df.writeStream.format("barnabas").option("topic", "flights")
      .option("checkpointLocation", "/data/checkpoint").start()

Tasks write transactions and leave them open (prepared).  The driver takes one decision for the whole
micro-batch, a record that names these transactions and no others, and then commits them.  Whatever dies, the
next driver reads the decision: what it names is committed, everything else is aborted.

In reading order: `options`, `decisions` (the rules, without a socket), `decision_log` (where decisions are),
`batch` (the driver's steps), `task` (a task's), `rows` (Arrow to records), `writer` (Spark's own interface).
"""
