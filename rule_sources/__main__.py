"""Print the source of anydml.core.rules."""

from rule_sources import source

print(source())
