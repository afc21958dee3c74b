#!/bin/bash
# franz-go's own integration tests (package kgo) against a running broker.
#
#   franz-go.sh HOST:PORT[,...]
#
# Runs all of them but those of share groups: consumers, producers, admin, and chains of consumers and transactional
# producers, exactly once.  $KGO_TEST_RF is the replication factor of its topics.  Needs Go; the module comes from the module proxy, unmodified.  Its build and results lie in
# $SUITES_WORK (default ~/.cache/kafka-suites).  The last line is 'PASSED x FAILED y SKIPPED z'.
set -u
bootstrap=${1:?HOST:PORT}
version=${KGO_VERSION:-v1.22.2}
work=${SUITES_WORK:-$HOME/.cache/kafka-suites}/kgo
mkdir -p "$work"
cd "$work" || exit 2
if [ ! -x kgo.test ]; then
  module=$(go mod download -json "github.com/twmb/franz-go@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  [ -n "$module" ] || exit 2
  rm -rf src && cp -r "$module" src && chmod -R u+w src
  (cd src && go test -c -o ../kgo.test ./pkg/kgo) || exit 2
fi
tests='^(TestTxnEtl|TestGroupETL|TestIssue325|TestConsumeTopicRetrieval|TestConsumeTopicRetrieval_Many|TestConsumeRegex'
tests+='|Test848RegexBrokerResolves|TestIssue337|TestDirectPartitionPurge|TestIssue434|TestAddRemovePartitions'
tests+='|TestPauseIssue489|TestPauseIssueOct2023|TestIssue523|TestIssue648|TestIssue810|TestIssue865'
tests+='|TestIssueFetchLargerThanBrokerMaxReadBytes|TestPooling|TestGroupSimple|TestHookPollStart|TestLookbackMilli'
tests+='|TestConsumeMaxDecompressBatchBytes|TestPing|TestIssue1034|TestClient_Produce|TestIssue769|TestIssue831'
tests+='|TestClient_ProduceLargeMessages|TestUnknownGroupOffsetFetchPinned)$'
cd src/pkg/kgo || exit 2
KGO_SEEDS=$bootstrap KGO_TEST_RF=${KGO_TEST_RF:-1} KGO_TEST_RECORDS=${KGO_TEST_RECORDS:-50000} KGO_TEST_MAX_TOPIC_PARTS=7 \
  KGO_LOG_LEVEL=${KGO_LOG_LEVEL:-none} timeout "${LIMIT:-600}" ../../../kgo.test -test.v "-test.timeout=${LIMIT:-590}s" \
  -test.run "${RUN:-$tests}" > "$work/out.log" 2>&1
grep -E '^ *--- (FAIL|SKIP)|^panic' "$work/out.log"
count() { grep -cE "^ *--- $1" "$work/out.log"; }
echo "PASSED $(count PASS) FAILED $(($(count FAIL) + $(grep -c '^panic' "$work/out.log"))) SKIPPED $(count SKIP)"
