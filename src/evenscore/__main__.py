"""``python -m evenscore``."""

from evenscore.cli import main

if __name__ == "__main__":
    main()
