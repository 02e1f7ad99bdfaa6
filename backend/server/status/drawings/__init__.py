"""The charts of a project's page: one small module each, which draws what a part of the report says."""
