"""Output formats: rows and items in, text out. Modules here know nothing about commands."""
