"""The parts of a launch that do not depend on the platform.

A launch calls a driver, which chooses the inputs and outputs. Then the launch runs the execution, determines the
outcome, and calls a publisher, which records the outcome. The modules contain the component (`component`), its launcher
(`component_launcher`, `runner`), the environment (`context`, `metadata`, `output`), the record that survives a crash
(`record`), and the outcome (`output`, `errors`).
"""
