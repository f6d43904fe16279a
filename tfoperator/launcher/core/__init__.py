"""The steps of any launch: input, record, driver, execution, verdict, publisher. They do not depend on the platform.

The modules contain the component (`component`), its launcher (`component_launcher`, `runner`), the environment
(`context`, `metadata`, `output`), the record that survives a crash (`record`), and the outcome (`output`, `errors`).
"""
