from barnabas import Consumer

with Consumer("127.0.0.1:9092", "sensors", start="earliest", idle=1.0) as consumer:
    consumer.seek("sensors", 0, 90)
    print(sum(1 for message in consumer), "records from offset 90 on")
    consumer.seek("sensors", 0, "earliest")
    message = consumer.poll(30.0, max_messages=1)[0]
    print(message.key, message.value, message.headers, consumer.position("sensors", 0))
