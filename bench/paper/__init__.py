"""The producer and the consumer test of the 2011 paper (section 5), with its sizes: 10,000,000 messages of 200 bytes."""
