"""Send a thousand readings to the topic `readings`, for the project in this folder."""

import os

from barnabas import Producer

with Producer(os.environ.get("BOOTSTRAP", "127.0.0.1:9092")) as producer:
    for number in range(1000):
        reading = f'{{"sensor": "s{number % 3}", "celsius": {number % 100}}}'
        producer.send("readings", reading, key=f"s{number % 3}")
print("sent 1000 readings")
