"""vikingpi: a terminal coding agent whose long-term context is owned by a context store."""

__version__ = "0.1.0"
