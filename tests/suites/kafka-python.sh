#!/bin/bash
# kafka-python's own integration tests against a running broker.
#
#   kafka-python.sh HOST:PORT [pytest arguments]
#
# The broker: one, node.id=0, num.partitions=4, advertised.listeners given, auto.create.topics.enable=true,
# group.min.session.timeout.ms=100.  The source distribution of kafka-python comes from the package index, its
# environment and results lie in $SUITES_WORK (default ~/.cache/kafka-suites).  The last line is
# 'PASSED x FAILED y SKIPPED z'; the lines before it name what failed.
set -u
bootstrap=${1:?HOST:PORT}
shift
version=${KAFKA_PYTHON_VERSION:-3.0.12}
work=${SUITES_WORK:-$HOME/.cache/kafka-suites}/kafka-python
source=$work/kafka_python-$version
mkdir -p "$work/fakeroot"
cd "$work" || exit 2

if [ ! -d "$source" ]; then
  python3 -m venv venv && venv/bin/pip install -q -U pip setuptools wheel || exit 2
  venv/bin/pip download -q --no-binary kafka-python --no-deps -d . "kafka-python==$version" || exit 2
  venv/bin/pip install -q 'pytest<9' pytest-timeout pytest-mock py lz4 python-snappy zstandard crc32c || exit 2
  tar xzf "kafka_python-$version.tar.gz" || exit 2
fi
cd "$source" || exit 2
touch test/__init__.py test/integration/__init__.py
# The distribution lacks test/service.py, which starts brokers; with a broker that runs already this is enough of it.
[ -f test/service.py ] || cat > test/service.py <<'PY'
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    close = stop = start = dump_logs = open

    def wait_for(self, *args, **kwargs):
        return True


class SpawnedService(ExternalService):
    def __init__(self, *args, **kwargs):
        raise RuntimeError("this run has one broker, which runs already")
PY

KAFKA_URI=kafka://$bootstrap KAFKA_VERSION=${KAFKA_VERSION:-4.3.0} KAFKA_ROOT=$work/fakeroot PYTHONPATH= \
  timeout "${LIMIT:-900}" ../venv/bin/python -m pytest test/integration -q -p no:cacheprovider \
  -o log_level=WARNING --timeout="${TEST_TIMEOUT:-90}" --tb=short -rfEs "$@" > "$work/out.log" 2>&1
tail -60 "$work/out.log" | grep -E '^(FAILED|ERROR|SKIPPED)|passed|failed'
count() { grep -aE '(passed|failed).* in ' "$work/out.log" | tail -1 | grep -oE "[0-9]+ $1" | grep -oE '[0-9]+' || echo 0; }
echo "PASSED $(count passed) FAILED $(($(count failed) + $(count error))) SKIPPED $(count skipped)"
