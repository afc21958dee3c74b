"""Send ten records and read them back.

barnabas start &
python examples/produce_and_consume.py 127.0.0.1:9092
"""

import sys

from barnabas import Consumer, Producer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

with Producer(bootstrap) as producer:
    for number in range(10):
        producer.send("greetings", f"hello {number}", key=f"key {number % 3}")

    where = producer.send("greetings", "the last one").result(timeout=10)
    print(f"the last one is at offset {where.offset} of {where.topic}-{where.partition}")

with Consumer(bootstrap, "greetings", start="earliest", idle=1.0) as consumer:
    for message in consumer:
        key = message.key.decode() if message.key else "-"
        print(f"{message.offset:>3}  {key:<6} {message.value.decode()}")
