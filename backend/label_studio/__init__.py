"""Label Studio's side: its API, its requests and webhooks, and predictions in the form it stores."""
