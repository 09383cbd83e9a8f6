"""The ``ssp`` command: ``main`` finds the sub-command, and each sub-command is a dataclass with a method ``run``.

Fields are the options and docstrings are the help, read by tyro. A new sub-command is such a class and a line in
``main.COMMANDS``. Its module is imported only when it runs.
"""
