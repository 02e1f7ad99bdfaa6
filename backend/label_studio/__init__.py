"""CaMVo as a client of Label Studio: connecting a project, predicting a large one, catching up."""
