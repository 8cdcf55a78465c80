"""The same requests to two servers, with responses as tables that can be compared. See ../test_same_answers.py."""
