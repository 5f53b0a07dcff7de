"""Runs of plans: blocks are read, moved and written; a journal lists the finished ones."""
