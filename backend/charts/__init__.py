"""Charts as SVG that look alike everywhere: the report of a replay and the status page draw with them.

The room knows nothing of what is drawn. Import its modules where something is drawn: they load matplotlib.
"""
