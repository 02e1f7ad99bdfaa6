"""Several tasks in one prompt: who shares a prompt, what it costs, and whose answer is whose."""
