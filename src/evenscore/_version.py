"""The version, in a module of its own so that everything can say it and nothing must be imported for it."""

__version__ = "0.2.0.dev0"
