#!/bin/sh
# get-jars.sh : Spark's own Kafka connector from Maven Central into $SPARK_KAFKA_LIBS (default ~/.cache/spark-sql-kafka-4.2.0). Once; some seconds.
# 4.2.0 is the newest whose jars Maven Central has; it runs in PySpark 4.3.0. Its token provider is there as 4.0.0 only.
D=$(cd "$(dirname "$0")" && pwd); L=${SPARK_KAFKA_LIBS:-$HOME/.cache/spark-sql-kafka-4.2.0}
[ -e "$L/.complete" ] && exit 0
mkdir -p "$L" && mvn -q -f "$D/pom.xml" dependency:copy-dependencies -DoutputDirectory="$L" && touch "$L/.complete"
