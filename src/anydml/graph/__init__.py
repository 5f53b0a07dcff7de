"""DML_GRAPH: the words that describe graphs, their rules, and what makes a graph one program of moves."""
