"""`[[directory]]` sections: each file that is dropped into a folder is one message."""
