"""``camvo label --project``: a project of Label Studio, labelled in this process."""
