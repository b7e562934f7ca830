"""Trained models over HTTP, in the convention that clients know, and a page to see them on."""
