"""What several commands share: options, environment, output, the client of the server, the certificate."""
