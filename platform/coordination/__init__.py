"""What processes agree on through ZooKeeper: the only room that imports kazoo.

`session` is the door (start, close, is_sure), the registries are the furniture: `brokers`, `topics`, `consumers`, `positions`,
`producer_ids`. `assignment` is pure. Source: the paper's section 3.2, Kafka 0.7.2's ZkUtils and ZookeeperConsumerConnector.
"""
