"""The parts of a report about models and annotators."""
