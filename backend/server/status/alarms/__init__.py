"""Problems that need a person's attention: finding them, and telling people of each of them once."""
