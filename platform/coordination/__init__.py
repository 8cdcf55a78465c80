"""What processes agree on through ZooKeeper. No other room imports kazoo.

`session` opens, watches and closes the session. The registries are `brokers`, `topics`, `consumers`, `positions` and
`producer_ids`. `assignment` is pure. Source: the paper's section 3.2, Kafka 0.7.2's ZkUtils and ZookeeperConsumerConnector.
"""
