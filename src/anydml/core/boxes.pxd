# Many boxes of one result.
