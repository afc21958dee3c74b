#!/bin/bash
# librdkafka's own tests (tests/test-runner) against a running cluster.
#
#   librdkafka.sh HOST:PORT[,...] [TEST NUMBERS]
#
# librdkafka 2.15.1 with its tests comes in the source of the npm package @confluentinc/kafka-javascript; building it
# takes three minutes on two cores, once.  The cluster has three brokers, num.partitions=4, auto.create.topics.enable=true.
# SCENARIO=noautocreate runs the two tests that want auto.create.topics.enable=false.
# Left out are tests that call Kafka's shell scripts, need SSL, SASL, an authorizer, RapidJSON or share groups, write
# message formats before 2, or need no broker.  QUICK= (empty) runs the long form of each.
# Needs npm, gcc, g++, make, the headers of OpenSSL and zlib.  The last line is 'PASSED x FAILED y SKIPPED z'.
set -u
bootstrap=${1:?HOST:PORT}
shift
work=${SUITES_WORK:-$HOME/.cache/kafka-suites}/librdkafka
source=$work/package/deps/librdkafka
mkdir -p "$work"
cd "$work" || exit 2
if [ ! -x "$source/tests/test-runner" ]; then
  npm pack "@confluentinc/kafka-javascript@${PACKAGE_VERSION:-1.10.1}" > npm.log 2>&1 || exit 2
  tar xzf confluentinc-kafka-javascript-*.tgz package/deps/librdkafka || exit 2
  (cd "$source" && ./configure --disable-gssapi && make -j2 libs && cd tests && make -j2 build) > build.log 2>&1 ||
    { tail build.log >&2; exit 2; }
fi
cd "$source/tests" || exit 2
export LD_LIBRARY_PATH=../src:../src-cpp TEST_KAFKA_VERSION=${KAFKA_VERSION:-4.3.1} RDKAFKA_TEST_CONF=$work/test.conf
printf 'metadata.broker.list=%s\ntest.topic.random=true\nbroker.address.family=v4\n' "$bootstrap" > "$RDKAFKA_TEST_CONF"
tests="0001 0002 0003 0005 0007 0008 0011 0012 0013 0014 0015 0017 0018 0019 0020 0021 0022 0026 0029 0030 0031 0033"
tests+=" 0034 0035 0036 0039 0040 0041 0042 0044 0045 0048 0049 0050 0051 0054 0056 0057 0059 0060 0061 0063 0064 0065"
tests+=" 0067 0068 0069 0070 0073 0075 0076 0083 0084 0085 0086 0089 0090 0091 0093 0094 0099 0102 0103 0107 0111 0112"
tests+=" 0113 0114 0118 0122 0123 0125 0127 0129 0130 0132 0137 0140"
scenario=${SCENARIO:-default}
passed=0 failed=0 skipped=0
: > "$work/out.log"

run() { # scenario test
  local result
  TESTS=$2 timeout -k 5 "${TEST_LIMIT:-180}" ./test-runner -L ${QUICK--Q} -K -p1 -s "$1" > "$work/one.log" 2>&1
  cat "$work/one.log" >> "$work/out.log"
  result=$(sed 's/\x1b\[[0-9;]*m//g' "$work/one.log" | grep -aE "^\| *$2" | grep -av 'negative test flags\|scenario')
  if [ -z "$result" ]; then
    grep -aq 'negative test flags\|scenario' "$work/one.log" && ! grep -aqi 'abort\|assert' "$work/one.log" && return
    result="| $2 | FAILED | (no result: killed or crashed)"
  fi
  echo "$result" | grep -aE 'FAILED|SKIPPED' | cut -c1-300
  echo "$result" | grep -aq FAILED && grep -aoE 'failed at [^ ]+\(\)' "$work/one.log" | head -1 | sed "s/^/$2 /"
  passed=$((passed + $(echo "$result" | grep -ac PASSED)))
  failed=$((failed + $(echo "$result" | grep -ac FAILED)))
  skipped=$((skipped + $(echo "$result" | grep -ac SKIPPED)))
}
[ "$scenario" = noautocreate ] && tests="0107 0111"
for test in ${*:-$tests}; do run "$scenario" "$test"; done
echo "PASSED $passed FAILED $failed SKIPPED $skipped"
