# Elements picked by indices.
