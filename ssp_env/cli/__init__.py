"""The ``ssp`` command."""
