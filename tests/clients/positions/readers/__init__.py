"""Python's clients and kcat as readers: each a program that carries out a command a line and answers in lines."""
