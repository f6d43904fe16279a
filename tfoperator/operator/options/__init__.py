"""The options of an administrator, and their sources: a flag, the environment, a YAML file, in this order."""

from tfoperator.operator.options.reading import parse_options, read_config
from tfoperator.operator.options.settings import Options, OptionsError

__all__ = ["Options", "OptionsError", "parse_options", "read_config"]
