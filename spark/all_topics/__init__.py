"""One Spark application that loads every topic that has something new."""
