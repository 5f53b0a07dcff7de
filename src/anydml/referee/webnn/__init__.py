"""Cases of WebNN's operators, as the JSON of web-platform-tests: `operators` draws them, `run_graphs` runs them."""
