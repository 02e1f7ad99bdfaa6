"""Engines: a dataset labelled part by part, in one process or on a cluster, into a folder of files."""
