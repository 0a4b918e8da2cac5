"""The example tenant ``acme``: five people, a shop outside of the product, and workflows that act on it."""
