"""DML_GRAPH: descs of graphs, their rules, and their lowering to one program."""
