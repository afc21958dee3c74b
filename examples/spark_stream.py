"""Follow a topic with PySpark structured streaming until everything has been read once.

pip install '.[spark]'
python examples/spark_stream.py 127.0.0.1:9092
"""

import sys
import tempfile

from barnabas import Producer
from barnabas.pipeline.session import session

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

with Producer(bootstrap) as producer:
    for number in range(1000):
        producer.send("readings", f"{number % 7}", key=f"sensor {number % 3}")

spark = session("spark stream", master="local[2]")
readings = (
    spark.readStream.format("barnabas")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", "readings")
    .option("startingOffsets", "earliest")
    .load()
    .selectExpr("cast(key as string) as sensor", "cast(cast(value as string) as int) as reading")
)
totals = readings.groupBy("sensor").sum("reading").withColumnRenamed("sum(reading)", "total")
query = (
    totals.writeStream.outputMode("complete")
    .format("memory")
    .queryName("totals")
    .option("checkpointLocation", tempfile.mkdtemp())
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.table("totals").orderBy("sensor").show()
spark.stop()
