"""Files named by models: locations for error messages, confinement to the model's folder, and .npy files."""
