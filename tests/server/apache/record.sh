#!/bin/bash
# record.sh [PORT] [CASES]: what Apache Kafka 4.4.0 answers to the cases of tests/server/admin_cases.py, as JSON.
# Its jars are in $KAFKA_LIBS; it runs at PORT and PORT+1 in a directory of its own, and is stopped at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
libs=${KAFKA_LIBS:-$HOME/.cache/kafka-4.4.0/libs}
port=${1:-29092}
cases=${2:-admin_cases}
data=$(mktemp -d)
cat > "$data/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$data/logs
offsets.topic.replication.factor=1
metric.reporters=Receiver
$(cd "$here/../../.." && .venv/bin/python -c "
from tests.server.admin_cases import SETTINGS
print(chr(10).join(f'{name}={value}' for name, value in SETTINGS.items()))")
P
javac -nowarn -cp "$libs/*" -d "$data" "$here/Receiver.java" 2>/dev/null
java="java -Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.awt.headless=true -cp $data:$libs/*"
$java kafka.tools.StorageTool format --standalone -t 5L6g3nShT-eMCtK--X86sw -c "$data/server.properties" >"$data/format.log"
$java kafka.Kafka "$data/server.properties" >"$data/server.log" 2>&1 &
broker=$!
trap 'kill $broker; wait $broker || true; rm -rf "$data"' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 $broker; sleep 0.5; done
sleep 5
cd "$here/../../.." && .venv/bin/python -m "tests.server.$cases" "127.0.0.1:$port"
