"""What the agent receives over sockets: syslog and HTTP. It is journaled first, and shipped from the journal.

`inbox`: the journal of one topic. `syslog_receiver`, with `syslog_framing`, and `http_receiver`, with `http_topic`: the sockets.
`receivers`: all of an agent's, which stay while the shipping begins again.
"""
