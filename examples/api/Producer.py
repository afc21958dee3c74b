from barnabas import Producer

with Producer("127.0.0.1:9092", compression="zstd") as producer:
    first = producer.send("sensors", "21.5", key="kitchen", headers={"unit": b"C"}).result(30)
    print(first.topic, first.partition, first.offset)
    for number in range(99):
        producer.send("sensors", str(number), key="kitchen")
    producer.flush()
    print(producer.statistics().records, "wait for an acknowledgement")
