"""Running plans: blocks are read, moved and written; a journal lists those that are finished."""
