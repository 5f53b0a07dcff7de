"""``python -m anydml`` is the command `anydml`."""

from anydml.cli import main

if __name__ == "__main__":
    main()
