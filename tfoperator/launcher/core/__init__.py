"""The life of any launch: input, record, driver, execution, verdict, publisher; independent of the platform.

The component (`component`), its launcher (`component_launcher`, `runner`), the environment (`context`, `metadata`,
`output`), the record that survives a crash (`record`), and the outcome (`output`, `errors`).
"""
