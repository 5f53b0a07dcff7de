"""What arrays in files are, and where their elements lie: one module per format."""
