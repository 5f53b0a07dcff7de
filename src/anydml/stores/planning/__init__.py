"""Plans: programs over files, cut into blocks that fit into a memory budget."""
