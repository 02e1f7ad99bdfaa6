"""Files of tasks: sources that are read row by row, an index on disk, and sinks that labels are written to.

Nothing here holds a whole file in memory.
"""
