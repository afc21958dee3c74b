#!/bin/bash
# Records the walks of test_like_apache.py anew: record.sh LIBS, the folder with Apache Kafka 4.3.1's jars.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
libs=${1:-$HOME/.cache/kafka-4.3.1/libs}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
javac -cp "$libs/*" -d "$out" "$here/ControllerWalk.java"
while read -r seed steps elr level name; do
  java -cp "$out:$libs/*" org.apache.kafka.controller.ControllerWalk "$seed" "$steps" "$elr" "$level" \
    2> /dev/null | grep '^{' | gzip -9n > "$here/walk-$name.jsonl.gz"
done << 'WALKS'
1 1200 1 30 mv30-elr-1
2 1200 1 30 mv30-elr-2
3 1200 0 30 mv30-plain
4 600 0 16 mv16-plain
5 600 0 8 mv8-plain
WALKS
