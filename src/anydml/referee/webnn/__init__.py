"""Cases of WebNN's operators, as the JSON of web-platform-tests: `operators` draws them, `running` runs them here."""
