"""A Declarative Pipelines project: a topic becomes a table, a view sums it up, alarms go to a topic, exactly once.

    pip install '.[connect]'
    barnabas start &                               # a node on 127.0.0.1:9092; BOOTSTRAP=host:port names another
    python examples/spark_pipelines/send.py        # a thousand readings
    eval "$(barnabas pipeline env)"                # the Java and the Python that Spark shall take
    cd examples/spark_pipelines
    spark-pipelines run --conf spark.sql.catalogImplementation=hive

Run it again after `send.py`, and it takes what is new.  (The setting has Spark keep its catalog in this folder:
without it Spark forgets which tables there are, and refuses to make them again.)
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")


@dp.table(comment="every reading, as it came")
def readings() -> DataFrame:
    rows = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "readings")
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("valueSchema", "sensor STRING, celsius DOUBLE")
        .load()
    )
    return rows.select("value.sensor", "value.celsius", "timestamp")


@dp.materialized_view(comment="how warm each sensor was")
def sensors() -> DataFrame:
    return (
        spark.read.table("readings")
        .groupBy("sensor")
        .agg(f.count("*").alias("readings"), f.max("celsius").alias("warmest"))
    )


dp.create_sink("alarms", "barnabas", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": "alarms"})


@dp.append_flow(target="alarms")
def too_warm() -> DataFrame:
    warm = spark.readStream.table("readings").where("celsius > 90")
    return warm.selectExpr("sensor AS key", "to_json(struct(*)) AS value")
