"""The object tags of a label config: what an annotator reads."""
