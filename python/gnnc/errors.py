"""The exceptions of gnnc. Their texts are those of the command line."""


class Error(Exception):
    """Any error of gnnc."""


class InputError(Error, ValueError):
    """The input is wrong: a model, a graph, an option. The text says what was found, what was expected and what to do."""


class MachineError(Error, RuntimeError):
    """The machine refuses something, such as memory or a file to write, or gnnc has a bug."""


class UnsupportedError(InputError):
    """A part of a PyTorch module that no gnnc model can stand for. The text names it by its path in the module."""
