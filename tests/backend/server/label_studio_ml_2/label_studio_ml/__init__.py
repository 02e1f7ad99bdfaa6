"""What CaMVo uses of label-studio-ml 2.x, which no package index has: enough to run our subclass for real."""
