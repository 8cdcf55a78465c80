"""How the replicas of one partition agree, without a master: a pure machine, which decides and never acts.

Facts and events go in, orders come out. The caller carries out the orders one after the other. Nothing here knows a clock, a
socket, a file or ZooKeeper. `broker/replicas` runs it. Design: decision 66.
"""
