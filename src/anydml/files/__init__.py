"""Files that models name: where something stands in one, folders that keep theirs in, and arrays in .npy files."""
