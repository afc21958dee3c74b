#!/bin/bash
# Apache Kafka's own integration tests of its Java clients against a running cluster.
#
#   apache-clients.sh HOST:PORT[,...] [CLASSES]
#
# The tests come from Maven Central, unmodified; java/ holds the one class that hands them the running cluster instead
# of one in their own process.  CLASSES is a regular expression.  The cluster is for this suite alone: every test first
# deletes all topics.  It has three brokers with the ids 0, 1, 2, num.partitions=1, auto.create.topics.enable=true,
# group.min.session.timeout.ms=100, group.initial.rebalance.delay.ms=0, offsets.topic.num.partitions=1.
# $BROKERS_CMD, where given, is called with `stop ID` and `start ID` by the tests that bounce brokers.
# Tests that look inside a broker, need SASL, ACLs or another broker setting are skipped; PlaintextConsumerTest is left
# out, because it wants a cluster of one broker and no topics but its own.
# Needs Java 17 and Maven.  The last line is 'PASSED x FAILED y SKIPPED z'; the lines before it name what did not pass.
set -u
bootstrap=${1:?HOST:PORT}
consumer='PlaintextConsumer(Assign|Callback|Close|Commit|Fetch|Subscription)|ConsumerTopicCreation'
producer='ProducerFailureHandling|ProducerIntegration'
admin='AdminFenceProducers|ConcurrentListOffsetsRequest|DeleteTopic|ListOffsetsIntegration|DescribeFeatures'
classes=${2:-"org.apache.kafka.clients.(consumer.($consumer)|producer.($producer)|admin.($admin)|TransactionsWithMaxInFlightOne)Test"}
here=$(cd "$(dirname "$0")" && pwd)
version=${KAFKA_VERSION:-4.3.1}
work=${SUITES_WORK:-$HOME/.cache/kafka-suites}/apache-clients-$version
mkdir -p "$work"
cd "$work" || exit 2

dependency() { # group artifact version [classifier]
  echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version>${4:+<classifier>$4</classifier>}</dependency>"
}
if [ ! -d libs ]; then
  {
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>suite</groupId><artifactId>suite</artifactId>'
    echo '<version>1</version><dependencies>'
    for artifact in kafka-clients kafka-test-common-runtime kafka-test-common-internal-api kafka-test-common-util kafka_2.13; do
      dependency org.apache.kafka $artifact "$version"
    done
    for artifact in kafka-clients-integration-tests kafka-clients kafka-server-common kafka_2.13; do
      dependency org.apache.kafka $artifact "$version" test
    done
    dependency org.mockito mockito-core 5.14.2
    dependency org.junit.jupiter junit-jupiter 5.13.1
    dependency org.junit.platform junit-platform-console 1.13.1
    echo '</dependencies></project>'
  } > pom.xml
  mvn -q -B dependency:copy-dependencies -DoutputDirectory=libs -DincludeScope=runtime > mvn.log 2>&1 ||
    { tail mvn.log >&2; rm -rf libs; exit 2; }
fi
source=$here/java/org/apache/kafka/common/test/junit/RaftClusterInvocationContext.java
if [ ! -d cluster ] || [ "$source" -nt cluster ]; then
  rm -rf cluster
  mkdir cluster
  javac -nowarn -cp 'libs/*' -d cluster "$source" || { rm -rf cluster; exit 2; }
fi
timeout "${LIMIT:-1500}" java -Xmx1g -Dext.bootstrap="$bootstrap" -Dext.prop.auto.create.topics.enable=true \
  -Dext.brokers.cmd="${BROKERS_CMD:-}" -cp 'cluster:libs/*' org.junit.platform.console.ConsoleLauncher execute \
  "--scan-classpath=libs/kafka-clients-integration-tests-$version-test.jar" "--include-classname=$classes" \
  --details=verbose --disable-banner --disable-ansi-colors > out.log 2>&1
python3 "$here/apache_clients_summary.py" out.log
