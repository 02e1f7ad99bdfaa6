"""What a certificate says of one question, and the certificates that were issued."""
