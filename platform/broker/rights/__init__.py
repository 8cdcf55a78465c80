"""Who may do what: Kafka's access rules (ACLs), and the decision that follows from them. Pure."""
