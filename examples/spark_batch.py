"""Count words of a topic with PySpark; no jar, no Java to install.

pip install '.[spark]'
python examples/spark_batch.py 127.0.0.1:9092
"""

import sys

from barnabas import Producer
from barnabas.pipeline.session import session

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

with Producer(bootstrap) as producer:
    for line in ("the quick brown fox", "jumps over", "the lazy dog"):
        producer.send("lines", line)

spark = session("spark batch", master="local[2]")
lines = (
    spark.read.format("barnabas")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", "lines")
    .load()
)
words = lines.selectExpr("explode(split(cast(value as string), ' ')) as word")
for row in words.groupBy("word").count().orderBy("count", "word", ascending=[False, True]).collect():
    print(f"{row['count']:>3}  {row['word']}")
spark.stop()
