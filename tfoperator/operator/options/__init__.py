"""What can an administrator choose, and what was chosen? A flag, the environment, a YAML file, in this order."""

from tfoperator.operator.options.reading import parse_options, read_config
from tfoperator.operator.options.settings import Options, OptionsError

__all__ = ["Options", "OptionsError", "parse_options", "read_config"]
