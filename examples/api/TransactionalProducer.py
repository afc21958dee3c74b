from barnabas import Consumer, TransactionalProducer

with TransactionalProducer("127.0.0.1:9092", "books-1", transaction_timeout=10.0) as producer:
    with producer.transaction():
        producer.send("debit", b"7")
        producer.send("credit", b"7")
    producer.begin()
    producer.send("debit", b"8")
    producer.abort()

with Consumer("127.0.0.1:9092", "debit", start="earliest", isolation="read_committed", idle=1.0) as consumer:
    print([message.value for message in consumer])
