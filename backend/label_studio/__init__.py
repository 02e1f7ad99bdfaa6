"""Label Studio's wire: its API, its requests and webhooks, and the predictions that it stores."""
