"""Plans: programs over files, cut into blocks that fit in a budget of memory."""
