"""Human answers in; states, fits, scores and examples out."""
