from barnabas import Producer
from barnabas.testing import Cluster

with Cluster(nodes=3) as cluster, Producer(cluster.bootstrap) as producer:
    producer.send("orders", b"before").result(30)
    leader = cluster.leader_of("orders")
    cluster.kill(leader)
    print(producer.send("orders", b"after").result(60).offset)
    cluster.start(leader)
