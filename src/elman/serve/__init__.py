"""HTTP service for trained models, compatible with OpenAI's completions, and its page."""
